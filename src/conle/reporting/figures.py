"""The figures of the report, drawn without pyplot's global state."""

import io
from collections.abc import Callable, Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from conle.core.measures import MEASURES
from conle.methods.registry import TITLES
from conle.reporting.tables import SIZES, method_title

PANELS_IN_A_ROW = 4
# Seconds; no shorter ones are told apart.
SHORTEST = 1e-3
# Told apart by the colour-blind too; beyond them bars are hatched.
COLOURS = matplotlib.color_sequences["petroff10"]
DRAWS_SHOWN = 40
MOST_TICKS = 10


def as_svg(figure: Figure) -> str:
    """The figure as SVG text, the same for the same figure: no date, no random names."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "conle"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def note(text: str) -> Figure:
    """A figure that says why there is none."""
    figure = Figure(figsize=(6, 0.8))
    figure.text(0.5, 0.5, text, ha="center", va="center", wrap=True)
    return figure


def dataset_sizes(table: pd.DataFrame) -> Figure:
    """Samples, features and labels of every dataset, the published sizes as crosses.

    Args:
        table: as `tables.dataset_table` gives it.
    """
    figure = Figure(figsize=(9, 1.2 + 0.26 * len(table)), layout="constrained")
    grid = figure.subplots(1, len(SIZES), sharey=True)
    position = np.arange(len(table))[::-1]
    for axes, size in zip(grid, SIZES, strict=True):
        axes.barh(position, table[size], label="here")
        published = table[f"{size}_published"].astype(float)
        axes.plot(published, position, "kx", label="published")
        # A logarithmic bar has no base but the one it is given.
        axes.set(title=size, xscale="log", xlim=(1, None))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="x", alpha=0.3)
    grid[0].set_yticks(position, table["dataset"])
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def measure_curves() -> Figure:
    """How the measures grow from a true distribution to the uniform and to a single label."""
    true = np.array([0.55, 0.25, 0.15, 0.05])
    share = np.linspace(0, 1, 101)[:, None]
    ends = {"towards uniform": np.full(4, 0.25), "towards the top label": np.eye(4)[0]}
    figure, grid = _panels(len(MEASURES), 2.6, 2.2)
    for axes, measure in zip(grid, MEASURES.values(), strict=True):
        for number, (title, end) in enumerate(ends.items()):
            recovered = (1 - share) * true + share * end
            values = measure.function(np.tile(true, (len(share), 1)), recovered)
            # The last step of a divergence, to exact zeros, would hide the others.
            shown = slice(None) if "uniform" in title else slice(None, -1)
            axes.plot(share[shown, 0], values[shown], color=f"C{number}", label=title)
        axes.set_title(f"{measure.title} {measure.arrow}", fontsize="medium")
        axes.grid(alpha=0.3)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(f"from {', '.join(f'{degree:g}' for degree in true)}")
    figure.supxlabel("share of the way", fontsize="medium")
    return figure


def rank_map(recovery: pd.DataFrame) -> Figure:
    """The rank of every method on every dataset, a panel for each measure.

    Args:
        recovery: as `tables.recovery_table` gives it.
    """
    measures, methods, datasets = _names(recovery, "measure", "method", "dataset")
    titles = [method_title(name, recovery) for name in methods]
    # Titles stand upright below every panel, and take their height from it.
    below = 0.9 + 0.08 * max(map(len, titles))
    figure, grid = _panels(
        len(measures), 0.9 + 0.32 * len(methods), below + 0.24 * len(datasets), sharey=True
    )
    for axes, measure in zip(grid, measures, strict=True):
        ranks = (
            recovery[recovery["measure"] == measure]
            .pivot(index="dataset", columns="method", values="rank")
            .reindex(index=datasets, columns=methods)
        )
        image = axes.imshow(ranks, cmap="viridis_r", vmin=1, vmax=len(methods), aspect="auto")
        _write_cells(axes, ranks.to_numpy(), lambda rank: rank > 0.6 * len(methods))
        axes.set_title(f"{MEASURES[measure].title} {MEASURES[measure].arrow}")
        axes.set_xticks(range(len(methods)), titles, rotation=90)
        axes.set_yticks(range(len(datasets)), datasets)
    figure.colorbar(image, ax=figure.axes, label="rank, 1 is best", shrink=0.6)
    return figure


def method_bars(recovery: pd.DataFrame) -> Figure:
    """Methods side by side, a panel for each measure, the datasets along the axis.

    Args:
        recovery: as `tables.recovery_table` gives it.
    """
    measures, methods, datasets = _names(recovery, "measure", "method", "dataset")
    width = max(6, 0.8 * len(datasets) + 2)
    titles = [method_title(name, recovery) for name in methods]
    # The legend takes its height from the panels.
    columns = min(len(methods), int(width / (0.6 + 0.09 * max(map(len, titles)))))
    above = 0.22 * -(-len(methods) // columns)
    figure = Figure(figsize=(width, above + 2.2 * len(measures)), layout="constrained")
    grid = figure.subplots(len(measures), 1, sharex=True, squeeze=False)[:, 0]
    for axes, measure in zip(grid, measures, strict=True):
        rows = recovery[recovery["measure"] == measure].set_index(["method", "dataset"])
        for number, (method, title) in enumerate(zip(methods, titles, strict=True)):
            cells = rows.loc[method].reindex(datasets)
            _bars(axes, number, len(methods), cells["mean"], cells["std"], title)
        axes.set_ylabel(f"{MEASURES[measure].title} {MEASURES[measure].arrow}")
        axes.grid(axis="y", alpha=0.3)
    grid[-1].set_xticks(range(len(datasets)), datasets, rotation=45, ha="right")
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
    return figure


def critical_differences(ranks: Mapping[str, tuple[pd.Series, pd.DataFrame]]) -> Figure:
    """Nemenyi's critical-difference diagram for each measure.

    Args:
        ranks: mean ranks and p-values of all pairs, by measure.
    """
    from scikit_posthocs import critical_difference_diagram

    figure = Figure(figsize=(13, 2.6 * -(-len(ranks) // 2)), layout="constrained")
    grid = figure.subplots(-(-len(ranks) // 2), 2, squeeze=False).ravel()
    for axes, (measure, (mean_ranks, p_values)) in zip(grid, ranks.items(), strict=False):
        critical_difference_diagram(mean_ranks, p_values, ax=axes, label_props={"fontsize": 8})
        axes.set_title(f"{MEASURES[measure].title}: mean rank", fontsize="medium")
    for axes in grid[len(ranks) :]:
        axes.remove()
    return figure


def cost_map(cost: pd.DataFrame) -> Figure:
    """Seconds of every recovery and the memory of its process, datasets by methods.

    Args:
        cost: as `tables.cost_table` gives it.
    """
    methods, datasets = _names(cost, "method", "dataset")
    titles = [TITLES[name] for name in methods]
    below = 0.9 + 0.08 * max(map(len, titles))
    figure, grid = _panels(2, 1.4 + 0.5 * len(methods), below + 0.3 * len(datasets), sharey=True)
    shown = {"seconds": "seconds, all folds", "peak_memory_mib": "peak memory, MiB"}
    for axes, (column, title) in zip(grid, shown.items(), strict=True):
        values = cost.pivot(index="dataset", columns="method", values=column)
        values = values.reindex(index=datasets, columns=methods).astype(float)
        # A logarithm has no 0.
        positive = np.maximum(values.to_numpy(), SHORTEST)
        norm = LogNorm(np.nanmin(positive), np.nanmax(positive))
        axes.imshow(positive, cmap="cividis_r", norm=norm, aspect="auto")
        _write_cells(axes, positive, lambda value, norm=norm: norm(value) > 0.5)
        axes.set_title(title)
        axes.set_xticks(range(len(methods)), titles, rotation=90)
        axes.set_yticks(range(len(datasets)), datasets)
    return figure


def posterior_intervals(
    draws: Mapping[str, pd.DataFrame], coverages: Mapping[str, pd.DataFrame]
) -> Figure:
    """Draws, 90 % intervals and the true degrees of a few held-out samples of each dataset.

    Args:
        draws: of a few samples by dataset: sample, chain, draw and one column per label.
        coverages: intervals beside true degrees, by dataset.
    """
    columns = max(own["sample"].nunique() for own in draws.values())
    figure = Figure(figsize=(3.6 * columns, 0.5 + 1.8 * len(draws)), layout="constrained")
    grid = figure.subplots(len(draws), columns, squeeze=False)
    for row, (dataset, own) in zip(grid, draws.items(), strict=True):
        intervals = coverages[dataset].set_index("sample")
        for axes in row[own["sample"].nunique() :]:
            axes.remove()
        for axes, (sample, drawn) in zip(row, own.groupby("sample", sort=False), strict=False):
            degrees = drawn.drop(columns=["sample", "chain", "draw"])
            interval = intervals.loc[[sample]]
            position = np.arange(len(interval))
            shown = degrees.iloc[:: -(-len(degrees) // DRAWS_SHOWN)].to_numpy()
            axes.plot(position, shown.T, color="C0", alpha=0.12, lw=0.7)
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
            axes.set_xticks(position if len(position) <= MOST_TICKS else [])
            axes.tick_params(labelsize=7)
            axes.set_ylim(bottom=0)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    figure.supxlabel("label", fontsize="medium")
    figure.supylabel("description degree", fontsize="medium")
    return figure


def entropy_histogram(entropies: np.ndarray) -> Figure:
    """How far from uniform distributions are.

    Args:
        entropies: divided by that of the uniform distribution.
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
        distributions: of the samples.
        logical_labels: of the samples.
        most_labels: shown of each.
    """
    shown = min(most_labels, distributions.shape[1])
    figure, grid = _panels(len(distributions), 2.8, 0.7 + 0.2 * shown)
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


def _names(table: pd.DataFrame, *columns: str) -> tuple[list[str], ...]:
    return tuple(list(dict.fromkeys(table[column])) for column in columns)


def _panels(count: int, width: float, height: float, **options) -> tuple[Figure, Sequence]:
    """A figure of as many panels, their size in inches."""
    columns = min(PANELS_IN_A_ROW, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(1.2 + columns * width, 0.4 + rows * height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options).ravel()
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def _write_cells(axes, values: np.ndarray, is_dark: Callable[[float], bool]) -> None:
    """The numbers of a map in its cells, light where the colour is dark; gaps stay empty."""
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            axes.text(
                column,
                row,
                f"{value:.0f}" if value >= 10 else f"{value:.2g}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if is_dark(value) else "black",
            )


def _bars(
    axes,
    number: int,
    count: int,
    values: pd.Series,
    deviations: pd.Series | None,
    title: str,
) -> None:
    """The bars of one method among `count`, a group for each dataset."""
    width = 0.8 / count
    axes.bar(
        np.arange(len(values)) + (number - (count - 1) / 2) * width,
        values,
        width,
        yerr=deviations,
        label=title,
        color=COLOURS[number % len(COLOURS)],
        hatch="//" if number >= len(COLOURS) else None,
        error_kw={"lw": 0.8},
    )
