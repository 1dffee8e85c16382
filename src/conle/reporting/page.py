"""The report as one HTML page without references to other files."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from conle.methods.registry import ABLATIONS, POSTERIORS, SET_APART, TITLES
from conle.reporting import statistics
from conle.reporting.exhibits import EXHIBITS
from conle.reporting.grids import (
    curve_grid,
    grid_of,
    leaderboard_grid,
    limit_grid,
    published_grids,
    ranks_grid,
    recovery_grids,
    verdict_grid,
)
from conle.reporting.leaderboard import gain_sentence, lead_sentence, leader_sentence
from conle.reporting.posterior import mean_contributions
from conle.reporting.samples import FIRST_SAMPLES, SAMPLES_WITH_INTERVALS, viewer
from conle.reporting.tables import against_the_truth, complete_part

FIGURES = tuple(name for name, exhibit in EXHIBITS.items() if exhibit.figure is not None)
# Tables that the page shows as they are.
PLAIN_TABLES = ["wins", "table2", "friedman", "wilcoxon", "contributions", "missing"]


def render_page(
    parameters: Mapping[str, Any],
    provenance: Mapping[str, str],
    runs: pd.DataFrame,
    predictive: pd.DataFrame | None,
    samples: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    svgs: Mapping[str, str | None],
) -> str:
    """Put the tables and figures on a page, the summary first.

    Args:
        parameters: the parameters of the run.
        provenance: the commit and the versions of packages.
        runs: the runs that the catalog holds, each with the command that reports on it.
        predictive: scores of a learner on recovered distributions; None where no run has any.
        samples: the result of `samples.sample_table`.
        tables: the missing cells and the tables of `conle.reporting.exhibits.TABLES`, by name.
        svgs: the figures of the exhibits in `FIGURES`, by name; None where one has nothing to show.

    Returns:
        An HTML page without references to other files.
    """
    table3, table4, ranks = tables["table3"], tables["table4"], tables["ranks"]
    board = tables["leaderboard"]
    return fill_template(
        "report.html.j2",
        datasets=list(dict.fromkeys(table3["dataset"])),
        parameters=parameters,
        configuration=yaml.safe_dump(dict(parameters), allow_unicode=True),
        provenance=provenance,
        checksums=tables["table1"][["dataset", "sha256"]].itertuples(index=False, name=None),
        leader=leader_sentence(board),
        verdicts=[
            (row["dataset"], lead_sentence(row), gain_sentence(row))
            for row in tables["verdicts"].to_dict("records")
        ],
        wins={row.method: row for row in tables["wins"].itertuples()},
        titles=TITLES,
        behind=[
            row.method
            for row in board.itertuples()
            if row.method not in SET_APART
            and not pd.isna(row.better_than_label_posterior)
            and row.better_than_label_posterior < row.means / 2
        ],
        has_decoders=table3["method"].isin(POSTERIORS).any(),
        has_ablations=table4["method"].isin(ABLATIONS).any(),
        mean_contributions=mean_contributions(tables["contributions"]),
        ablation_wins=_ablation_wins(table4),
        suspects=int(tables["comparison"]["suspect"].notna().sum()),
        any_on_all=bool((table3["fitted_on"] == "all").any()),
        why_no_tests=statistics.why_not(table3),
        left_out=statistics.left_out(table3),
        not_compared=[
            name
            for name in dict.fromkeys(table3["dataset"])
            if name not in set(complete_part(table3)["dataset"])
        ],
        compared=int(ranks["datasets"].max()) if len(ranks) else 0,
        grids={
            **{name: grid_of(tables[name]) for name in PLAIN_TABLES},
            "leaderboard": leaderboard_grid(board, table3),
            "verdicts": verdict_grid(tables["verdicts"]),
            "ranks": ranks_grid(ranks),
            "runs": grid_of(runs.drop(columns=["run", "finished"])),
            "table1": grid_of(tables["table1"].drop(columns="sha256")),
            "examination": grid_of(tables["examination"], 3),
            "cost": grid_of(tables["cost"], 1),
            "limit": limit_grid(tables["multiples_of_limit"]),
            "predictive": None
            if predictive is None
            else curve_grid(predictive, "method", "measure"),
        },
        against_the_truth={} if predictive is None else against_the_truth(predictive),
        table3=recovery_grids(table3),
        published=published_grids(table3),
        table4=recovery_grids(table4),
        figures={name: svg and image_address(svg) for name, svg in svgs.items()},
        samples=viewer(samples),
        counts=(FIRST_SAMPLES, SAMPLES_WITH_INTERVALS),
        made_by={name: exhibit.made_by for name, exhibit in EXHIBITS.items()},
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


def image_address(svg: str) -> Markup:
    """The address of an image that is an SVG text; shorter than base64."""
    text = quote(" ".join(svg.split()), safe=" !$()*+,-./:;<=>?@[]^_`{|}~")
    # The text is quoted.
    return Markup(f"data:image/svg+xml,{text}")  # nosec B704


def _ablation_wins(table4: pd.DataFrame) -> tuple[int, int]:
    """Count the means of ConLE that are at least as good as its ablations, and all its means."""
    ranks = table4.pivot(index=["dataset", "measure"], columns="method", values="rank")
    ranks = ranks.reindex(columns=["conle", *ABLATIONS]).dropna()
    best = ranks[list(ABLATIONS)].min(axis=1)
    return int((ranks["conle"] <= best).sum()), len(ranks)
