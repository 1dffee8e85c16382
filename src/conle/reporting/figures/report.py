"""The figures of the report."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from conle.core.measures import MEASURES
from conle.methods.registry import TITLES
from conle.reporting.figures.canvas import legend_outside, name_labels, panel_grid
from conle.reporting.tables import SIZES
from conle.reporting.titles import column_title, label_titles, measure_title, method_title

# A map shows smaller costs, in seconds or MiB, as this one.
SMALLEST_COST = 0.01
# It spans at least this factor, so that costs that hardly differ have one colour.
SMALLEST_SPAN = 4.0
# Ten colours that the colour-blind can tell apart; further methods have hatched bars.
COLOURS = matplotlib.color_sequences["petroff10"]
DRAWS_SHOWN = 20
# Inches of a letter, and of a cell of a map, in which a number of three digits can be read.
LETTER, CELL_WIDTH, CELL_HEIGHT = 0.08, 0.34, 0.22


def dataset_sizes(table: pd.DataFrame) -> Figure:
    """Samples, features and labels of every dataset, the published sizes as crosses.

    Args:
        table: the result of `tables.dataset_table`.
    """
    figure = Figure(figsize=(9, 1.2 + 0.26 * len(table)), layout="constrained")
    grid = figure.subplots(1, len(SIZES), sharey=True)
    position = np.arange(len(table))[::-1]
    for axes, size in zip(grid, SIZES, strict=True):
        axes.barh(position, table[size], label="here")
        published = table[f"{size}_published"].astype(float)
        axes.plot(published, position, "kx", label="published")
        # Bars on a logarithmic axis start at its lower limit.
        axes.set(title=size, xscale="log", xlim=(1, None))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="x", alpha=0.3)
    grid[0].set_yticks(position, table["dataset"])
    legend_outside(figure, grid[0], "lower", 2)
    return figure


def measure_curves() -> Figure:
    """Every measure on the way from a true distribution to the uniform one and to one label."""
    true = np.array([0.55, 0.25, 0.15, 0.05])
    share = np.linspace(0, 1, 101)[:, None]
    ends = {"towards uniform": np.full(4, 0.25), "towards the top label": np.eye(4)[0]}
    figure, grid = panel_grid(len(MEASURES), 2.6, 2.2)
    for axes, (name, measure) in zip(grid, MEASURES.items(), strict=True):
        for number, (title, end) in enumerate(ends.items()):
            recovered = (1 - share) * true + share * end
            values = measure.function(np.tile(true, (len(share), 1)), recovered)
            # At exact zeros a divergence is so large that it would hide the other values.
            shown = slice(None) if "uniform" in title else slice(None, -1)
            axes.plot(share[shown, 0], values[shown], color=f"C{number}", label=title)
        axes.set_title(measure_title(name), fontsize="medium")
        axes.grid(alpha=0.3)
    legend_outside(figure, grid[0], "upper", 2)
    start = ", ".join(f"{degree:g}" for degree in true)
    figure.supxlabel(f"share of the way from ({start})", fontsize="medium")
    return figure


def rank_map(recovery: pd.DataFrame) -> Figure:
    """The rank of every method on every dataset, averaged over the paper's six measures.

    Args:
        recovery: the result of `tables.recovery_table`.
    """
    rows = recovery[recovery["measure"] != "kl_divergence_reversed"].dropna(subset="rank")
    methods, datasets = _names(rows, "method", "dataset")
    figure, (axes,) = _map_panels(1, [method_title(name, rows) for name in methods], datasets)
    ranks = rows.groupby(["method", "dataset"])["rank"].mean().unstack()
    ranks = ranks.reindex(index=methods, columns=datasets).to_numpy()
    axes.imshow(ranks, cmap="viridis_r", vmin=1, vmax=len(methods), aspect="auto")
    _write_numbers(axes, ranks, "{:.1f}".format, lambda rank: rank > 0.6 * len(methods))
    return figure


def method_bars(recovery: pd.DataFrame) -> Figure:
    """Means of all methods as bars, a panel for each measure and a group for each dataset.

    Args:
        recovery: the result of `tables.recovery_table`.
    """
    measures, methods, datasets = _names(recovery, "measure", "method", "dataset")
    width = max(6, 0.8 * len(datasets) + 2)
    titles = [method_title(name, recovery) for name in methods]
    # The legend needs room above the panels.
    columns = min(len(methods), int(width / (0.6 + 0.09 * max(map(len, titles)))))
    above = 0.22 * -(-len(methods) // columns)
    figure = Figure(figsize=(width, above + 2.2 * len(measures)), layout="constrained")
    grid = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
    for axes, measure in zip(grid, measures, strict=True):
        rows = recovery[recovery["measure"] == measure].set_index(["method", "dataset"])
        for number, (method, title) in enumerate(zip(methods, titles, strict=True)):
            _bars(axes, number, len(methods), rows.loc[method].reindex(datasets), title)
        axes.set_ylabel(measure_title(measure))
        axes.grid(axis="y", alpha=0.3)
    grid[-1].set_xticks(range(len(datasets)), datasets, rotation=45, ha="right")
    legend_outside(figure, grid[0], "upper", columns)
    return figure


def critical_differences(ranks: Mapping[str, tuple[pd.Series, pd.DataFrame]]) -> Figure:
    """Nemenyi's critical-difference diagram for each measure.

    Args:
        ranks: the result of `statistics.nemenyi`.
    """
    # Imported here because it takes seconds.
    from scikit_posthocs import critical_difference_diagram

    figure = Figure(figsize=(13, 2.6 * -(-len(ranks) // 2)), layout="constrained")
    grid = figure.subplots(-(-len(ranks) // 2), 2, squeeze=False).ravel()
    for axes, (measure, (mean_ranks, p_values)) in zip(grid, ranks.items(), strict=False):
        drawn = critical_difference_diagram(
            mean_ranks, p_values, ax=axes, label_props={"fontsize": 8}
        )
        # The points of a bar come from a set, whose order varies between processes.
        for (bar,) in drawn["crossbars"]:
            bar.set_xdata(sorted(bar.get_xdata()))
        axes.set_title(f"{MEASURES[measure].title}: mean rank", fontsize="medium")
    for axes in grid[len(ranks) :]:
        axes.remove()
    return figure


def cost_map(cost: pd.DataFrame) -> Figure:
    """Seconds of every recovery and peak memory of its process, methods by datasets.

    Args:
        cost: the result of `tables.cost_table`.
    """
    methods, datasets = _names(cost, "method", "dataset")
    figure, grid = _map_panels(2, [TITLES[name] for name in methods], datasets)
    shown = {"seconds": "seconds, all folds", "peak_memory_mib": "peak memory, MiB"}
    for axes, (column, title) in zip(grid, shown.items(), strict=True):
        values = cost.pivot(index="method", columns="dataset", values=column)
        values = values.reindex(index=methods, columns=datasets).astype(float)
        positive = np.maximum(values.to_numpy(), SMALLEST_COST)
        smallest = np.nanmin(positive)
        norm = LogNorm(smallest, max(np.nanmax(positive), SMALLEST_SPAN * smallest))
        axes.imshow(positive, cmap="cividis_r", norm=norm, aspect="auto")
        _write_numbers(axes, positive, _short, lambda value, norm=norm: norm(value) > 0.5)
        axes.set_title(title)
    return figure


def posterior_intervals(held_out: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]]) -> Figure:
    """Draws, 90 % intervals and the true degrees of a few held-out samples of each dataset.

    Args:
        held_out: draws and coverage by dataset. Draws have the columns sample, chain, draw and one
            per label; coverage has sample, label, logical, mean, low, high and true.
    """
    columns = max(own["sample"].nunique() for own, _ in held_out.values())
    figure = Figure(figsize=(3.6 * columns, 0.5 + 1.8 * len(held_out)), layout="constrained")
    grid = figure.subplots(len(held_out), columns, squeeze=False)
    for row, (dataset, (own, coverage)) in zip(grid, held_out.items(), strict=True):
        intervals = coverage.set_index("sample")
        for axes in row[own["sample"].nunique() :]:
            axes.remove()
        for axes, (sample, drawn) in zip(row, own.groupby("sample", sort=False), strict=False):
            degrees = drawn.drop(columns=["sample", "chain", "draw"])
            interval = intervals.loc[[sample]]
            position = np.arange(len(interval))
            shown = degrees.iloc[:: -(-len(degrees) // DRAWS_SHOWN)].to_numpy()
            axes.plot(position, shown.T, color="C0", alpha=0.2, lw=0.7)
            relevant = interval["logical"].to_numpy() == 1
            for name, which, color in (("relevant", relevant, "C1"), ("other", ~relevant, "C0")):
                axes.errorbar(
                    position[which],
                    interval["mean"][which],
                    [
                        (interval["mean"] - interval["low"])[which],
                        (interval["high"] - interval["mean"])[which],
                    ],
                    fmt="o",
                    ms=3,
                    color=color,
                    label=f"mean and interval, {name} label",
                )
            axes.plot(position, interval["true"], "kx", ms=5, label="true degree")
            axes.set_title(f"{dataset}, sample {sample}", fontsize="small")
            name_labels(axes, label_titles(dataset, list(degrees)))
            axes.tick_params(labelsize=7)
            axes.set_ylim(bottom=0)
    legend_outside(figure, grid[0, 0], "upper", 3)
    figure.supxlabel("label", fontsize="medium")
    figure.supylabel("description degree", fontsize="medium")
    return figure


def sensitivity_curves(sensitivity: pd.DataFrame) -> Figure:
    """Measures against a hyperparameter, the standard deviation over the folds shaded.

    Args:
        sensitivity: columns dataset, parameter, setting, measure, mean, std.
    """
    rows = sensitivity[sensitivity["measure"] != "kl_divergence_reversed"]
    measures, parameters = _names(rows, "measure", "parameter")
    figure = Figure(
        figsize=(2.5 * len(measures), 2.4 * len(parameters) + 0.4), layout="constrained"
    )
    grid = figure.subplots(len(parameters), len(measures), squeeze=False)
    for (parameter, measure), axes in zip(
        ((p, m) for p in parameters for m in measures), grid.ravel(), strict=True
    ):
        panel = rows[(rows["parameter"] == parameter) & (rows["measure"] == measure)]
        for dataset, curve in panel.groupby("dataset", sort=False):
            curve = curve.sort_values("setting")
            _plot_with_deviation(axes, curve, "setting", marker="o", ms=3, label=dataset)
        axes.set(xscale="log", xlabel=column_title(parameter))
        axes.set_title(measure_title(measure), fontsize="medium")
        axes.grid(alpha=0.3)
    grid[0, 0].legend(frameon=False, fontsize="small")
    return figure


def convergence_curves(convergence: pd.DataFrame) -> Figure:
    """Objective and Canberra distance against the epoch, deviations over the folds shaded.

    Args:
        convergence: columns dataset, quantity, epoch, mean, std.
    """
    (datasets,) = _names(convergence, "dataset")
    shown = {"loss": "objective", "canberra": measure_title("canberra")}
    figure = Figure(figsize=(8, 2.8 * len(datasets) + 0.4), layout="constrained")
    grid = figure.subplots(len(datasets), 2, squeeze=False)
    for dataset, row in zip(datasets, grid, strict=True):
        for axes, (quantity, title) in zip(row, shown.items(), strict=True):
            curve = convergence[
                (convergence["dataset"] == dataset) & (convergence["quantity"] == quantity)
            ]
            _plot_with_deviation(axes, curve, "epoch")
            axes.set(title=f"{dataset}: {title}", xlabel="epoch")
            axes.grid(alpha=0.3)
    return figure


def _names(table: pd.DataFrame, *columns: str) -> tuple[list[str], ...]:
    """The values of each column, once each, in their order."""
    return tuple(list(dict.fromkeys(table[column])) for column in columns)


def _map_panels(
    count: int, titles: Sequence[str], datasets: Sequence[str]
) -> tuple[Figure, Sequence[Axes]]:
    """Panels for maps, side by side, with methods down and datasets across."""
    beside, below = (0.4 + LETTER * max(map(len, names)) for names in (titles, datasets))
    # The title of a panel needs room.
    width = max(CELL_WIDTH * len(datasets), 1.6)
    figure = Figure(
        figsize=(beside + count * width, below + 0.3 + CELL_HEIGHT * len(titles)),
        layout="constrained",
    )
    grid = figure.subplots(1, count, squeeze=False, sharey=True)[0]
    for axes in grid:
        axes.set_xticks(range(len(datasets)), datasets, rotation=90)
        axes.set_yticks(range(len(titles)), titles)
    return figure, grid


def _short(value: float) -> str:
    if value <= SMALLEST_COST:
        return f"≤{SMALLEST_COST:g}"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _write_numbers(
    axes: Axes,
    values: np.ndarray,
    as_text: Callable[[float], str],
    is_dark: Callable[[float], bool],
) -> None:
    """Write the numbers of a map on it, light where the colour is dark; gaps stay empty."""
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            axes.text(
                column,
                row,
                as_text(value),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if is_dark(value) else "black",
            )


def _bars(axes: Axes, number: int, count: int, rows: pd.DataFrame, title: str) -> None:
    """Draw the bars of method `number` of `count`; `rows` holds a mean and std per group."""
    width = 0.8 / count
    axes.bar(
        np.arange(len(rows)) + (number - (count - 1) / 2) * width,
        rows["mean"],
        width,
        yerr=rows["std"],
        label=title,
        color=COLOURS[number % len(COLOURS)],
        hatch="//" if number >= len(COLOURS) else None,
        error_kw={"lw": 0.8},
    )


def _plot_with_deviation(axes: Axes, curve: pd.DataFrame, x: str, **line) -> None:
    """Plot the mean against the column `x`, one standard deviation on both sides shaded."""
    low, high = curve["mean"] - curve["std"], curve["mean"] + curve["std"]
    axes.fill_between(curve[x], low, high, alpha=0.2, lw=0)
    axes.plot(curve[x], curve["mean"], **line)
