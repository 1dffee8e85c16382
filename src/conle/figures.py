"""The pictures: drawn on figures of their own, without pyplot's global state."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

Distributions = Float[np.ndarray, "samples labels"]

LOSS_TITLES = {
    "loss": "objective",
    "contrastive_loss": "contrastive",
    "distance_loss": "distance",
    "threshold_loss": "threshold",
}
SAMPLES_IN_BARS = 6
PANELS_IN_A_ROW = 6


def training_curves(curves: pd.DataFrame, title: str) -> Figure:
    """Loss terms by step and agreement by check: the mean over folds, their range shaded.

    Args:
        curves: columns quantity, repeat, fold, step, value.
        title: of the figure.
    """
    terms = [name for name in LOSS_TITLES if name in set(curves["quantity"])]
    agreement = curves[curves["quantity"] == "agreement"]
    figure = Figure(figsize=(3.2 * (len(terms) + (not agreement.empty)), 3.2), layout="constrained")
    panels = figure.subplots(1, len(terms) + (not agreement.empty), squeeze=False)[0]
    for axes, name in zip(panels, terms, strict=False):
        _draw_with_range(axes, curves[curves["quantity"] == name])
        axes.set_title(LOSS_TITLES[name])
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
    if features.shape[1] <= 3:
        plane, axis_names = features[:, :2], ("feature 1", "feature 2")
    else:
        plane = PCA(2, svd_solver="full").fit_transform(features)
        axis_names = ("principal component 1", "principal component 2")
    true = next(iter(panels.values()))
    lowest, highest = true.min(axis=0), true.max(axis=0)
    span = np.where(highest > lowest, highest - lowest, 1.0)

    columns = min(len(panels), PANELS_IN_A_ROW)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(2.9 * columns, 3.1 * rows + 0.4), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (title, degrees) in zip(grid.ravel(), panels.items(), strict=False):
        axes.scatter(
            *plane.T[:2],
            c=((degrees - lowest) / span).clip(0, 1),
            s=12,
            marker="s",
            linewidths=0,
        )
        axes.set(title=title, xlabel=axis_names[0])
        axes.label_outer()
        axes.set_aspect("equal", adjustable="box")
    for axes in grid.ravel()[len(panels) :]:
        axes.remove()
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
    figure.supxlabel("label")
    figure.supylabel("description degree")
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(panels)
    )
    figure.suptitle(dataset, x=0.05, ha="left")
    return figure
