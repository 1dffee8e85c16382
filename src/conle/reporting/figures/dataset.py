"""Pictures of one dataset: a training, recovered distributions, enhanced labels."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure, SubFigure

from conle.reporting.figures.canvas import legend_outside, name_labels, panel_grid
from conle.reporting.titles import column_title, label_titles

Distributions = Float[np.ndarray, "samples labels"]

SAMPLES_IN_BARS = 6
PICTURES_IN_A_ROW = 6
# What ConLE checks to choose weights: its axis, and whether a fold keeps its maximum or minimum.
CHECKED = {
    "agreement": ("share of rows", "idxmax"),
    "kl_to_featureless": ("KL", "idxmin"),
}


def training_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Loss terms by step, and the score of every check: the mean over folds, their range shaded.

    Bars show the share of folds that keep the weights of a step. A training that has failed has no
    curves, and the title says so.

    Args:
        curves: columns quantity, repeat, fold, step, value.
        title: title of the figure.
    """
    if curves.empty:
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        figure.suptitle(f"{title}: the training has failed")
        return figure
    quantities = list(dict.fromkeys(curves["quantity"]))
    terms = [name for name in quantities if name not in CHECKED]
    figure = Figure(figsize=(3.2 * len(quantities), 3.2), layout="constrained")
    panels = figure.subplots(1, len(quantities), squeeze=False)[0]
    for axes, name in zip(panels, terms, strict=False):
        _draw_with_range(axes, curves[curves["quantity"] == name])
        axes.set_title(column_title(name))
        axes.set_xlabel("step")
    panels[0].set_ylabel("loss")
    for axes, name in zip(panels[len(terms) :], quantities[len(terms) :], strict=True):
        label, best = CHECKED[name]
        checks = curves[curves["quantity"] == name]
        _draw_with_range(axes, checks, color="tab:green")
        axes.set(title=column_title(name), xlabel="step", ylabel=label)
        axes.set_ylim(bottom=0)
        by_fold = checks.groupby(["repeat", "fold"])["value"]
        kept = checks.loc[getattr(by_fold, best)(), "step"].value_counts()
        bars = axes.twinx()
        bars.bar(
            kept.index,
            kept / kept.sum(),
            # The first check shows the interval between checks.
            width=0.8 * checks["step"].min(),
            color="tab:orange",
            alpha=0.5,
            label="folds that keep this step",
        )
        bars.set(ylim=(0, 1), ylabel="share of folds")
        bars.legend(fontsize="small", frameon=False)
    figure.suptitle(title)
    return figure


def training_means(curves: Mapping[str, pd.DataFrame]) -> Figure:
    """Objective and agreement of the training on each dataset, means over the folds.

    Args:
        curves: columns quantity, repeat, fold, step, value, by dataset.
    """
    figure, grid = panel_grid(len(curves), 2.6, 1.9)
    for axes, (dataset, own) in zip(grid, curves.items(), strict=True):
        means = own.groupby(["quantity", "step"])["value"].mean()
        axes.plot(means["loss"], color="tab:blue", label="objective")
        axes.set_title(dataset, fontsize="medium")
        axes.grid(alpha=0.3)
        if "agreement" in means:
            right = axes.twinx()
            right.plot(means["agreement"], color="tab:green")
            right.set_ylim(0, 1)
            right.tick_params(axis="y", colors="tab:green")
            axes.plot([], color="tab:green", label="agreement, share of rows")
    legend_outside(figure, grid[0], "upper", 2)
    figure.supxlabel("step", fontsize="medium")
    return figure


def _draw_with_range(axes, curve: pd.DataFrame, color: str = "tab:blue") -> None:
    by_step = curve.groupby("step")["value"]
    mean = by_step.mean()
    axes.fill_between(mean.index, by_step.min(), by_step.max(), color=color, alpha=0.2, lw=0)
    axes.plot(mean.index, mean, color=color)
    axes.grid(alpha=0.3)


def recovery_as_colours(
    features: Float[np.ndarray, "samples features"],
    panels: Mapping[str, Distributions],
    dataset: str,
    figure: Figure | SubFigure | None = None,
    marker_size: float = 12,
) -> Figure | SubFigure:
    """Three labels as red, green and blue, over the first two features or principal components.

    Each colour runs from the smallest to the largest true degree of its label in all panels;
    without this stretch most pictures are an even grey.

    Args:
        features: samples x features.
        panels: distributions (samples x 3) by title; the first are the true ones.
        dataset: shown in the title.
        figure: is drawn on; a new one by default.
        marker_size: area of a sample's square, in points².
    """
    if features.shape[1] == 1:
        plane = np.column_stack([features[:, 0], np.arange(len(features))])
        axis_names = ("feature 1", "sample")
    elif features.shape[1] <= 3:
        plane, axis_names = features[:, :2], ("feature 1", "feature 2")
    else:
        from sklearn.decomposition import PCA

        plane = PCA(2, svd_solver="full").fit_transform(features)
        axis_names = ("principal component 1", "principal component 2")
    true = next(iter(panels.values()))
    lowest, highest = true.min(axis=0), true.max(axis=0)
    span = np.where(highest > lowest, highest - lowest, 1.0)

    columns, rows = _pictures_across_and_down(panels)
    if figure is None:
        figure = Figure(figsize=(2.9 * columns, 3.3 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (title, degrees) in zip(grid.ravel(), panels.items(), strict=False):
        axes.scatter(
            *plane.T,
            c=((degrees - lowest) / span).clip(0, 1),
            s=marker_size,
            marker="s",
            linewidths=0,
            # Thousands of squares would make an SVG large.
            rasterized=True,
        )
        axes.set(title=title, xlabel=axis_names[0])
        axes.label_outer()
        axes.set_box_aspect(1)
    for number in range(len(panels), rows * columns):
        grid.ravel()[number].remove()
        # The panel above becomes the lowest of its column and needs the axis labels.
        above = grid.ravel()[number - columns]
        above.tick_params(labelbottom=True)
        above.set_xlabel(axis_names[0])
    for axes in grid[:, 0]:
        axes.set_ylabel(axis_names[1])
    figure.suptitle(f"{dataset}: degrees of labels 1, 2 and 3 as red, green and blue")
    return figure


def recoveries_as_colours(pictures: Mapping[str, tuple[np.ndarray, dict]]) -> Figure:
    """The small pictures of `recovery_as_colours` of several datasets, one below the other.

    Args:
        pictures: features and panels by dataset.
    """
    sizes = [_pictures_across_and_down(panels) for _, panels in pictures.values()]
    heights = [1.75 * rows + 0.4 for _, rows in sizes]
    figure = Figure(figsize=(1.7 * max(sizes)[0], sum(heights)), layout="constrained")
    parts = figure.subfigures(len(pictures), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, (dataset, (features, panels)) in zip(parts, pictures.items(), strict=True):
        recovery_as_colours(features, panels, dataset, part, marker_size=4)
        for axes in part.axes:
            axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
            axes.title.set_fontsize("small")
    return figure


def _pictures_across_and_down(panels: Mapping[str, Distributions]) -> tuple[int, int]:
    columns = min(len(panels), PICTURES_IN_A_ROW)
    return columns, -(-len(panels) // columns)


def recovery_as_bars(
    panels: Mapping[str, Distributions], labels: Sequence[str], dataset: str
) -> Figure:
    """True and recovered distributions of a few samples, spread evenly over the rows.

    Args:
        panels: distributions (samples x labels) by title; the first are the true ones.
        labels: names of the labels.
        dataset: shown in the title.
    """
    samples = len(next(iter(panels.values())))
    shown = np.unique(np.linspace(0, samples - 1, SAMPLES_IN_BARS).astype(int))
    figure = Figure(figsize=(11, 2.4 * -(-len(shown) // 2)), layout="constrained")
    position, width = np.arange(len(labels)), 0.8 / len(panels)
    grid = figure.subplots(-(-len(shown) // 2), 2, squeeze=False, sharey=True).ravel()
    for axes, sample in zip(grid, shown, strict=False):
        for index, (title, degrees) in enumerate(panels.items()):
            axes.bar(
                position + (index - (len(panels) - 1) / 2) * width,
                degrees[sample],
                width,
                label=title,
                color="black" if index == 0 else f"C{index - 1}",
            )
        axes.set_title(f"sample {sample}", fontsize="medium")
        name_labels(axes, label_titles(dataset, labels))
    for axes in grid[len(shown) :]:
        axes.remove()
    for axes in grid[max(0, len(shown) - 2) : len(shown)]:
        axes.set_xlabel("label")
    figure.supylabel("description degree")
    figure.suptitle(f"{dataset}: true and recovered degrees of a few samples")
    legend_outside(figure, grid[0], "lower", min(len(panels), PICTURES_IN_A_ROW))
    return figure


def entropy_histogram(entropies: np.ndarray) -> Figure:
    """Histogram of the entropies of distributions.

    Args:
        entropies: from 0 to 1, the entropy of the uniform distribution.
    """
    figure = Figure(figsize=(6, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.hist(entropies, bins=40, range=(0, 1))
    axes.set(xlabel="entropy, 1 is uniform", ylabel="samples")
    axes.grid(axis="y", alpha=0.3)
    return figure


def example_distributions(
    distributions: pd.DataFrame, logical_labels: pd.DataFrame, most_labels: int
) -> Figure:
    """The largest degrees of a few samples, relevant labels in another colour.

    Args:
        distributions: samples x labels.
        logical_labels: samples x labels.
        most_labels: the number of labels that a sample shows at most.
    """
    shown = min(most_labels, distributions.shape[1])
    figure, grid = panel_grid(len(distributions), 2.8, 0.7 + 0.2 * shown)
    for axes, (index, degrees), (_, own) in zip(
        grid, distributions.iterrows(), logical_labels.iterrows(), strict=True
    ):
        largest = degrees.sort_values(ascending=False, kind="stable")[:shown][::-1]
        colors = ["C1" if own[label] == 1 else "C0" for label in largest.index]
        axes.barh(range(shown), largest, color=colors)
        axes.set_yticks(range(shown), [str(label)[:24] for label in largest.index], fontsize=7)
        axes.set_title(f"row {index}", fontsize="small")
    figure.supxlabel("description degree", fontsize="medium")
    return figure
