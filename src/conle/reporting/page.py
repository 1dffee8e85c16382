"""The report as one HTML page that needs nothing but itself."""

import base64
from collections.abc import Mapping
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from conle.methods.registry import ABLATIONS, POSTERIORS, REFERENCES, TITLES
from conle.reporting import statistics
from conle.reporting.exhibits import EXHIBITS
from conle.reporting.grids import curve_grid, grid_of, recovery_grids
from conle.reporting.posterior import mean_contributions
from conle.reporting.tables import against_the_truth

FIGURES = tuple(name for name, exhibit in EXHIBITS.items() if exhibit.figure is not None)


def render_page(
    *,
    parameters: Mapping[str, Any],
    provenance: Mapping[str, str],
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
        parameters: the parameters of the run.
        provenance: the commit and the versions of packages.
        missing: the cells that are not in the tables, with the reason.
        comparison: published values beside measured ones.
        table1: the result of `tables.dataset_table`; as below, the table of that name in
            `exhibits.TABLES`.
        table2: the result of `tables.measure_table`.
        table3: recovery, the result of `tables.recovery_table`.
        table4: ablations, the result of `tables.recovery_table`.
        ranks: the result of `tables.rank_table`.
        wins: the result of `tables.wins_table`.
        friedman: the result of `statistics.friedman_table`.
        wilcoxon: the result of `statistics.wilcoxon_table`.
        examination: the result of `posterior.examination_table`.
        contributions: the result of `posterior.contribution_table`.
        predictive: scores of a learner on recovered distributions; None where no run has any.
        cost: the result of `tables.cost_table`.
        figures: SVG texts, named <exhibit>_figure.

    Returns:
        An HTML page without references to other files.
    """
    return fill_template(
        "report.html.j2",
        datasets=list(dict.fromkeys(table3["dataset"])),
        parameters=parameters,
        configuration=yaml.safe_dump(dict(parameters), sort_keys=False, allow_unicode=True),
        provenance=provenance,
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
            "wins": grid_of(wins),
            "table1": grid_of(table1.drop(columns="sha256")),
            "table2": grid_of(table2),
            "comparison": grid_of(comparison),
            "friedman": grid_of(friedman),
            "wilcoxon": grid_of(wilcoxon),
            "examination": grid_of(examination, 3),
            "contributions": grid_of(contributions),
            "predictive": None
            if predictive is None
            else curve_grid(predictive, "method", "measure"),
            "cost": grid_of(cost, 1),
            "missing": grid_of(missing),
        },
        against_the_truth={} if predictive is None else against_the_truth(predictive),
        table3=recovery_grids(table3, ranks),
        table4=recovery_grids(table4),
        figures={name: as_base64(figures[f"{name}_figure"]) for name in FIGURES},
        captions={name: EXHIBITS[name].figure_caption for name in FIGURES},
    )


def fill_template(name: str, **values: Any) -> str:
    """Fill a template of this package.

    Text is escaped.

    Raises:
        jinja2.UndefinedError: the template uses a value that is not given.
    """
    environment = Environment(
        loader=PackageLoader("conle.reporting", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def as_base64(svg: str) -> str:
    """An SVG text as a page embeds it."""
    return base64.b64encode(svg.encode()).decode()


def _ablation_wins(table4: pd.DataFrame) -> tuple[int, int]:
    """Count the means of ConLE that are at least as good as its ablations, and all its means."""
    ranks = table4.pivot(index=["dataset", "measure"], columns="method", values="rank")
    ranks = ranks.reindex(columns=["conle", *ABLATIONS]).dropna()
    best = ranks[list(ABLATIONS)].min(axis=1)
    return int((ranks["conle"] <= best).sum()), len(ranks)
