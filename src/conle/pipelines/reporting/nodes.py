"""From the scores that the catalog holds to tables, figures and the page."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from conle.core.measures import MEASURES
from conle.pipelines.evaluation.nodes import RESULT_COLUMNS
from conle.reporting import posterior, statistics, tables
from conle.reporting.latex import latex_table

# Modules that draw are imported where they are used: matplotlib takes long to load.

logger = logging.getLogger(__name__)

ABLATION_MEASURES = ("kl_divergence", "clark", "canberra", "intersection")
MISSING_COLUMNS = ["dataset", "method", "reason"]


def collect_available(
    protocol: str,
    repeats: int,
    folds: int,
    *scores_and_costs: pd.DataFrame | Mapping[str, Any] | None,
    cells: Sequence[tuple[str, str]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Put the scores of every cell that the catalog has into one results table.

    Args:
        protocol: of this run; cells of another are left out.
        repeats: of this run.
        folds: of this run; cells of other numbers of folds are left out, and those that were scored
            on other data than most of their dataset: of another seed or threshold.
        scores_and_costs: scores of the cells, then what their recoveries cost; None where no run
            has left any.
        cells: dataset and method of each.

    Returns:
        The results table, and the cells that are not in it: dataset, method, reason.
    """
    expected = pd.MultiIndex.from_product(
        [range(1, repeats + 1), range(1, folds + 1)], names=["repeat", "fold"]
    )
    found, missing = [], []
    scored_on: dict[str, Counter[str]] = {}
    scores, costs = scores_and_costs[: len(cells)], scores_and_costs[len(cells) :]
    for (dataset, method), own, cost in zip(cells, scores, costs, strict=True):
        if own is None:
            missing.append((dataset, method, "no run has recovered them"))
            continue
        if own.empty:
            missing.append((dataset, method, f"failed: {cost['failure']}"))
            continue
        if "scored_on" not in own:
            missing.append((dataset, method, "scored by an earlier version of this project"))
            continue
        scored = pd.MultiIndex.from_frame(own[["repeat", "fold"]].drop_duplicates())
        if set(own["protocol"]) == {protocol} and set(scored) == set(expected):
            found.append(own)
            scored_on.setdefault(dataset, Counter())[own["scored_on"].iloc[0]] += 1
        else:
            missing.append(
                (
                    dataset,
                    method,
                    f"recovered under {'/'.join(sorted(set(own['protocol'])))} on {len(scored)} "
                    f"folds; this report is of {protocol} on {repeats} x {folds} folds",
                )
            )
    usual = {dataset: counts.most_common(1)[0][0] for dataset, counts in scored_on.items()}
    kept = []
    for own in found:
        dataset, method, data = own[["dataset", "method", "scored_on"]].iloc[0]
        if data == usual[dataset]:
            kept.append(own)
        else:
            missing.append((dataset, method, "of another seed or threshold than most others"))
    empty = pd.DataFrame(columns=RESULT_COLUMNS).astype({"value": float})
    results = pd.concat(kept, ignore_index=True) if kept else empty
    table = pd.DataFrame(missing, columns=MISSING_COLUMNS)
    for reason, rows in table.groupby("reason", sort=False):
        names = "; ".join(
            f"{dataset}: {', '.join(own)}"
            for dataset, own in rows.groupby("dataset", sort=False)["method"]
        )
        logger.warning("Not in the report, %s: %s", reason, names)
    return results, table


def tabulate_datasets(
    published_sizes: pd.DataFrame, *statistics: Mapping[str, Any] | None
) -> pd.DataFrame:
    """Table 1, of the datasets that were ingested."""
    return tables.dataset_table([own for own in statistics if own is not None], published_sizes)


def tabulate_recovery(
    summary: pd.DataFrame,
    comparison: pd.DataFrame,
    *,
    methods: Sequence[str],
    measures: Sequence[str] = tuple(MEASURES),
) -> pd.DataFrame:
    """Table 3 or 4: the methods and measures of it."""
    kept = summary[summary["measure"].isin(measures)]
    return tables.recovery_table(kept, comparison, methods)


def tabulate_examination(
    *artifacts: Any, datasets: Sequence[str], methods: Sequence[str]
) -> pd.DataFrame:
    """How the decoders were chosen, how far they converged and what their intervals cover.

    Args:
        artifacts: of each dataset its choice, then agreement and coverage of each method; None
            where no run has left any.
        datasets: their names.
        methods: the decoders.
    """
    length = 1 + 2 * len(methods)
    rows = [artifacts[start : start + length] for start in range(0, len(artifacts), length)]
    cells = {
        (dataset, method): own
        for dataset, row in zip(datasets, rows, strict=True)
        for method, own in zip(methods, zip(row[1::2], row[2::2], strict=True), strict=True)
    }
    return posterior.examination_table(
        [row[0] for row in rows],
        {cell: agreement for cell, (agreement, _) in cells.items()},
        {cell: coverage for cell, (_, coverage) in cells.items()},
    )


def tabulate_cost(
    *costs: Mapping[str, float] | None, cells: Sequence[tuple[str, str]]
) -> pd.DataFrame:
    """Time and memory of every cell that the catalog has."""
    return tables.cost_table(
        [
            {"dataset": dataset, "method": method, **cost}
            for (dataset, method), cost in zip(cells, costs, strict=True)
            if cost is not None and "failure" not in cost
        ]
    )


def present_datasets(table: pd.DataFrame) -> tuple[str, Any, str]:
    """Table 1 as LaTeX and as a figure (Matplotlib, and SVG text)."""
    from conle.reporting import figures

    shown = tables.grid_of(table.drop(columns="sha256"))
    source = latex_table([("", shown)], "The datasets, here and published", "data")
    return source, *_drawn(figures.dataset_sizes, table)


def present_measures(table: pd.DataFrame) -> tuple[str, Any, str]:
    """Table 2 as LaTeX and as a figure."""
    from conle.reporting import figures

    source = latex_table(
        [("", tables.grid_of(table))],
        "The measures of a true distribution d and a recovered one p",
        "measures",
    )
    figure = figures.measure_curves()
    return source, figure, figures.as_svg(figure)


def present_recovery(table: pd.DataFrame, ranks: pd.DataFrame) -> tuple[str, Any, str]:
    """Table 3 as LaTeX, a table for each measure, and the ranks as a figure."""
    from conle.reporting import figures

    source = _latex_by_measure(table, "Recovery, mean ± standard deviation", "recovery", ranks)
    return source, *_drawn(figures.rank_map, table)


def present_ablation(table: pd.DataFrame) -> tuple[str, Any, str]:
    """Table 4 as LaTeX, a table for each measure, and as a figure."""
    from conle.reporting import figures

    source = _latex_by_measure(table, "ConLE without one of its losses", "ablation")
    return source, *_drawn(figures.method_bars, table)


def present_posterior(
    examination: pd.DataFrame,
    contributions: pd.DataFrame,
    *artifacts: pd.DataFrame | None,
    datasets: Sequence[str],
) -> tuple[str, Any, str]:
    """The posterior decoders as LaTeX, and draws and intervals of a few samples as a figure.

    Args:
        examination: as `tabulate_examination` gives it.
        contributions: of the features.
        artifacts: draws and coverage of each dataset; None where no run has left any.
        datasets: their names.
    """
    from conle.reporting import figures

    there = {
        dataset: own
        for dataset, own in zip(
            datasets, zip(artifacts[::2], artifacts[1::2], strict=True), strict=True
        )
        if not any(table is None or table.empty for table in own)
    }
    if not there:
        return _absent("posterior")
    source = latex_table(
        [
            ("held-out samples", tables.grid_of(examination, 3)),
            ("KL and what features add", tables.grid_of(contributions)),
        ],
        "The posterior decoders",
        "posterior",
    )
    figure = figures.posterior_intervals(
        {dataset: draws for dataset, (draws, _) in there.items()},
        {dataset: coverage for dataset, (_, coverage) in there.items()},
    )
    return source, figure, figures.as_svg(figure)


def present_ranks(ranks: pd.DataFrame, wins: pd.DataFrame) -> str:
    """Average ranks and the comparison with the published ConLE as LaTeX."""
    return latex_table(
        [("average ranks", tables.grid_of(ranks, 2)), ("cells", tables.grid_of(wins))],
        "Against the published ConLE",
        "ranks",
    )


def present_statistics(
    recovery: pd.DataFrame, friedman: pd.DataFrame, wilcoxon: pd.DataFrame
) -> tuple[str, Any, str]:
    """The tests as LaTeX, and the critical-difference diagrams."""
    from conle.reporting import figures

    source = latex_table(
        [
            ("Friedman's test", tables.grid_of(friedman)),
            ("Wilcoxon's test with Holm's correction", tables.grid_of(wilcoxon)),
        ],
        "Tests over the datasets",
        "tests",
    )
    ranks = statistics.nemenyi(recovery)
    figure = (
        figures.critical_differences(ranks)
        if ranks
        else figures.note(f"No critical differences: {statistics.why_not(recovery)}")
    )
    return source, figure, figures.as_svg(figure)


def present_sensitivity(table: pd.DataFrame | None) -> tuple[str, Any, str]:
    """Figure 3 as LaTeX and as a figure, if the catalog has its table."""
    from conle.figures import sensitivity_curves

    if table is None:
        return _absent("sensitivity")
    grids = [
        (parameter, tables.grid_of(tables.curve_table(own, "setting", "measure")))
        for parameter, own in table.groupby("parameter", sort=False)
    ]
    source = latex_table(grids, "Recovery against the weights of the losses", "sensitivity")
    return source, *_drawn(sensitivity_curves, table)


def present_convergence(table: pd.DataFrame | None) -> tuple[str, Any, str]:
    """Figure 4 as LaTeX and as a figure, if the catalog has its table."""
    from conle.figures import convergence_curves

    if table is None:
        return _absent("convergence")
    shown = table[table["quantity"].isin(["loss", "canberra"])]
    grid = tables.grid_of(tables.curve_table(shown, "epoch", "quantity"))
    source = latex_table(
        [("", grid)], "Objective and Canberra distance against the epoch", "convergence"
    )
    return source, *_drawn(convergence_curves, table)


def present_predictive(table: pd.DataFrame | None) -> tuple[str, Any, str]:
    """The predictive setting as LaTeX and as a figure, if the catalog has its table."""
    from conle.reporting import figures

    if table is None:
        return _absent("predictive")
    grid = tables.grid_of(tables.curve_table(table, "method", "measure"))
    source = latex_table([("", grid)], "A learner trained on recovered distributions", "predictive")
    shown = table[table["measure"].isin(ABLATION_MEASURES)]
    return source, *_drawn(figures.method_bars, shown)


def present_cost(table: pd.DataFrame) -> tuple[str, Any, str]:
    """Time and memory as LaTeX and as a figure."""
    from conle.reporting import figures

    source = latex_table([("", tables.grid_of(table, 1))], "Time and memory of recovery", "cost")
    return source, *_drawn(figures.cost_map, table)


def _drawn(draw: Callable[[pd.DataFrame], Any], table: pd.DataFrame) -> tuple[Any, str]:
    from conle.reporting import figures

    figure = figures.note("Nothing recovered yet") if table.empty else draw(table)
    return figure, figures.as_svg(figure)


def _latex_by_measure(
    table: pd.DataFrame, caption: str, label: str, ranks: pd.DataFrame | None = None
) -> str:
    return latex_table(
        [
            (
                f"{MEASURES[measure].title} {MEASURES[measure].arrow}",
                tables.recovery_grid(table, measure, ranks),
            )
            for measure in dict.fromkeys(table["measure"])
        ],
        caption,
        label,
    )


def _absent(pipeline: str) -> tuple[str, Any, str]:
    from conle.reporting import figures

    text = f"Not in the catalog yet: kedro run --pipeline={pipeline} makes it"
    figure = figures.note(text)
    return f"% {text}\n", figure, figures.as_svg(figure)
