"""The report as one HTML page that needs nothing but itself."""

import base64
from collections.abc import Mapping
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from conle.core.measures import MEASURES
from conle.methods.registry import ABLATIONS, POSTERIORS, REFERENCES, TITLES
from conle.reporting import statistics, tables
from conle.reporting.posterior import mean_contributions

FIGURES = (
    "table1",
    "table2",
    "table3",
    "table4",
    "posterior",
    "tests",
    "figure3",
    "figure4",
    "predictive",
    "cost",
)


def render_page(
    *,
    parameters: Mapping[str, Any],
    environment: Mapping[str, str],
    missing: pd.DataFrame,
    comparison: pd.DataFrame,
    table1: pd.DataFrame,
    table2: pd.DataFrame,
    table3: pd.DataFrame,
    table4: pd.DataFrame,
    ranks: pd.DataFrame,
    wins: pd.DataFrame,
    friedman: pd.DataFrame,
    wilcoxon: pd.DataFrame,
    examination: pd.DataFrame,
    contributions: pd.DataFrame,
    predictive: pd.DataFrame | None,
    cost: pd.DataFrame,
    **figures: str,
) -> str:
    """Put the tables and figures on a page, the summary first.

    Args:
        parameters: of the run.
        environment: commit and versions.
        missing: cells that are not in the tables, with the reason.
        comparison: published cells beside measured ones.
        table1: datasets.
        table2: measures.
        table3: recovery.
        table4: ablations.
        ranks: average ranks.
        wins: cells at least as good as the published ConLE.
        friedman: Friedman's tests.
        wilcoxon: Wilcoxon's tests.
        examination: of the posterior decoders on held-out samples.
        contributions: of the features to them.
        predictive: of the learner trained on recovered distributions; None where there is none.
        cost: seconds and memory.
        figures: SVG texts, named <exhibit>_figure.

    Returns:
        HTML.
    """
    return fill_template(
        "report.html.j2",
        datasets=list(dict.fromkeys(table3["dataset"])),
        parameters=parameters,
        configuration=yaml.safe_dump(dict(parameters), sort_keys=False, allow_unicode=True),
        environment=environment,
        checksums=table1[["dataset", "sha256"]].itertuples(index=False, name=None),
        wins={row.method: row for row in wins.itertuples()},
        titles=TITLES,
        behind=[
            row.method
            for row in wins.itertuples()
            if row.method not in REFERENCES
            and not pd.isna(row.cells_beside_it)
            and row.better_than_label_posterior < row.cells_beside_it / 2
        ],
        has_decoders=table3["method"].isin(POSTERIORS).any(),
        mean_contributions=mean_contributions(contributions),
        ablation_wins=_ablation_wins(table4),
        suspects=int(comparison["suspect"].notna().sum()),
        any_on_all=bool((table3["fitted_on"] == "all").any()),
        why_no_tests=statistics.why_not(table3),
        left_out=statistics.left_out(table3),
        compared=int(ranks["datasets"].max()) if len(ranks) else 0,
        grids={
            "wins": tables.grid_of(wins),
            "table1": tables.grid_of(table1.drop(columns="sha256")),
            "table2": tables.grid_of(table2),
            "comparison": tables.grid_of(comparison),
            "friedman": tables.grid_of(friedman),
            "wilcoxon": tables.grid_of(wilcoxon),
            "examination": tables.grid_of(examination, 3),
            "contributions": tables.grid_of(contributions),
            "predictive": None
            if predictive is None
            else tables.grid_of(tables.curve_table(predictive, "method", "measure")),
            "cost": tables.grid_of(cost, 1),
            "missing": tables.grid_of(missing),
        },
        against_the_truth={} if predictive is None else tables.against_the_truth(predictive),
        table3=_by_measure(table3, ranks),
        table4=_by_measure(table4),
        figures={
            name: base64.b64encode(figures[f"{name}_figure"].encode()).decode() for name in FIGURES
        },
    )


def fill_template(name: str, **values: Any) -> str:
    """A page from a template; a value that it misses is an error, and all text is escaped."""
    environment = Environment(
        loader=PackageLoader("conle.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def _ablation_wins(table4: pd.DataFrame) -> tuple[int, int]:
    """In how many cells ConLE is at least as good as its ablations, and of how many."""
    ranks = table4.pivot(index=["dataset", "measure"], columns="method", values="rank")
    ranks = ranks.reindex(columns=["conle", *ABLATIONS]).dropna()
    best = ranks[list(ABLATIONS)].min(axis=1)
    return int((ranks["conle"] <= best).sum()), len(ranks)


def _by_measure(
    table: pd.DataFrame, ranks: pd.DataFrame | None = None
) -> list[tuple[str, tables.Grid]]:
    return [
        (
            f"{MEASURES[measure].title} {MEASURES[measure].arrow}",
            tables.recovery_grid(table, measure, ranks),
        )
        for measure in dict.fromkeys(table["measure"])
    ]
