"""The pictures: drawn on figures of their own, without pyplot's global state."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

from conle.core.measures import MEASURES

Distributions = Float[np.ndarray, "samples labels"]

SAMPLES_IN_BARS = 6
PANELS_IN_A_ROW = 6


def training_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Loss terms by step and agreement by check: the mean over folds, their range shaded.

    Args:
        curves: columns quantity, repeat, fold, step, value.
        title: of the figure.
    """
    if curves.empty:
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        figure.suptitle(f"{title}: the training has failed")
        return figure
    terms = [name for name in dict.fromkeys(curves["quantity"]) if name != "agreement"]
    agreement = curves[curves["quantity"] == "agreement"]
    figure = Figure(figsize=(3.2 * (len(terms) + (not agreement.empty)), 3.2), layout="constrained")
    panels = figure.subplots(1, len(terms) + (not agreement.empty), squeeze=False)[0]
    for axes, name in zip(panels, terms, strict=False):
        _draw_with_range(axes, curves[curves["quantity"] == name])
        axes.set_title("objective" if name == "loss" else name.removesuffix("_loss"))
        axes.set_xlabel("step")
    panels[0].set_ylabel("loss")
    if not agreement.empty:
        axes = panels[-1]
        _draw_with_range(axes, agreement, color="tab:green")
        axes.set(title="agreement", xlabel="step", ylabel="share of rows", ylim=(0, 1))
        kept = agreement.loc[
            agreement.groupby(["repeat", "fold"])["value"].idxmax(), "step"
        ].value_counts()
        axes.bar(
            kept.index,
            kept / kept.sum(),
            # Checks are as many steps apart as the first is from the start.
            width=0.8 * agreement["step"].min(),
            color="tab:orange",
            alpha=0.5,
            label="folds that keep this step",
        )
        axes.legend(fontsize="small", frameon=False)
    figure.suptitle(title)
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
) -> Figure:
    """Three labels as red, green and blue, over the first two features or principal components.

    All panels share one stretch of each colour, that of the true distributions from their
    smallest to their largest degree; without it most pictures are an even grey.

    Args:
        features: samples x features.
        panels: distributions (samples x 3) by title; the first are the true ones.
        dataset: its name.
    """
    if features.shape[1] == 1:
        plane = np.column_stack([features[:, 0], np.arange(len(features))])
        axis_names = ("feature 1", "sample")
    elif features.shape[1] <= 3:
        plane, axis_names = features[:, :2], ("feature 1", "feature 2")
    else:
        plane = PCA(2, svd_solver="full").fit_transform(features)
        axis_names = ("principal component 1", "principal component 2")
    true = next(iter(panels.values()))
    lowest, highest = true.min(axis=0), true.max(axis=0)
    span = np.where(highest > lowest, highest - lowest, 1.0)

    columns = min(len(panels), PANELS_IN_A_ROW)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(2.9 * columns, 3.3 * rows + 0.8), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (title, degrees) in zip(grid.ravel(), panels.items(), strict=False):
        axes.scatter(
            *plane.T,
            c=((degrees - lowest) / span).clip(0, 1),
            s=12,
            marker="s",
            linewidths=0,
        )
        axes.set(title=title, xlabel=axis_names[0])
        axes.label_outer()
        axes.set_box_aspect(1)
    for number in range(len(panels), rows * columns):
        grid.ravel()[number].remove()
        # The panel above is now the lowest of its column.
        above = grid.ravel()[number - columns]
        above.tick_params(labelbottom=True)
        above.set_xlabel(axis_names[0])
    for axes in grid[:, 0]:
        axes.set_ylabel(axis_names[1])
    figure.suptitle(f"{dataset}: degrees of labels 1, 2 and 3 as red, green and blue")
    return figure


def recovery_as_bars(
    panels: Mapping[str, Distributions], labels: Sequence[str], dataset: str
) -> Figure:
    """The true and the recovered distributions of a few samples, spread evenly over the rows.

    Args:
        panels: distributions (samples x labels) by title; the first are the true ones.
        labels: names of the labels.
        dataset: its name.
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
        axes.set_xticks(position, range(1, len(labels) + 1))
    for axes in grid[len(shown) :]:
        axes.remove()
    for axes in grid[max(0, len(shown) - 2) : len(shown)]:
        axes.set_xlabel("label")
    figure.supylabel("description degree")
    figure.suptitle(f"{dataset}: true and recovered degrees of a few samples")
    figure.legend(
        *grid[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=min(len(panels), PANELS_IN_A_ROW),
        frameon=False,
    )
    return figure


def sensitivity_curves(sensitivity: pd.DataFrame) -> Figure:
    """Measures against a hyperparameter, the standard deviation over the folds shaded.

    Args:
        sensitivity: columns dataset, parameter, setting, measure, mean, std.
    """
    rows = sensitivity[sensitivity["measure"] != "kl_divergence_reversed"]
    measures, parameters = (list(dict.fromkeys(rows[name])) for name in ("measure", "parameter"))
    figure = Figure(
        figsize=(2.5 * len(measures), 2.4 * len(parameters) + 0.4), layout="constrained"
    )
    grid = figure.subplots(len(parameters), len(measures), squeeze=False)
    for (parameter, measure), axes in zip(
        ((p, m) for p in parameters for m in measures), grid.ravel(), strict=True
    ):
        cells = rows[(rows["parameter"] == parameter) & (rows["measure"] == measure)]
        for dataset, curve in cells.groupby("dataset", sort=False):
            curve = curve.sort_values("setting")
            low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
            axes.fill_between(curve["setting"], low, high, alpha=0.2, lw=0)
            axes.plot(curve["setting"], curve["mean"], marker="o", ms=3, label=dataset)
        axes.set(xscale="log", xlabel=parameter)
        axes.set_title(f"{MEASURES[measure].title} {MEASURES[measure].arrow}", fontsize="medium")
        axes.grid(alpha=0.3)
    grid[0, 0].legend(frameon=False, fontsize="small")
    return figure


def convergence_curves(convergence: pd.DataFrame) -> Figure:
    """Objective and Canberra distance against the epoch, deviations over the folds shaded.

    Args:
        convergence: columns dataset, quantity, epoch, mean, std.
    """
    datasets = list(dict.fromkeys(convergence["dataset"]))
    shown = {"loss": "objective", "canberra": "Canberra ↓"}
    figure = Figure(figsize=(8, 2.8 * len(datasets) + 0.4), layout="constrained")
    grid = figure.subplots(len(datasets), 2, squeeze=False)
    for dataset, row in zip(datasets, grid, strict=True):
        for axes, (quantity, title) in zip(row, shown.items(), strict=True):
            curve = convergence[
                (convergence["dataset"] == dataset) & (convergence["quantity"] == quantity)
            ]
            low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
            axes.fill_between(curve["epoch"], low, high, alpha=0.2, lw=0)
            axes.plot(curve["epoch"], curve["mean"])
            axes.set(title=f"{dataset}: {title}", xlabel="epoch")
            axes.grid(alpha=0.3)
    return figure
