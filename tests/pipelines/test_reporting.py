import pickle

import pandas as pd
import pytest

from conle.pipelines.evaluation.nodes import RESULT_COLUMNS, compare_with_published, summarise
from conle.pipelines.reporting.nodes import (
    collect_available,
    entry_names,
    gather,
    present,
    tabulate,
)
from conle.pipelines.reporting.pipeline import create_pipeline
from conle.reporting import tables
from conle.reporting.exhibits import EXHIBITS, REPORTED_METHODS, TABLES

PUBLISHED = pd.DataFrame(
    [("SJAFFE", "conle", "clark", 0.269, None)],
    columns=["dataset", "method", "measure", "value", "suspect"],
)
RANKS = pd.DataFrame({"method": ["conle"], "measure": ["clark"], "average_rank": [1.0]})


def scores(dataset, method, value, protocol="cross_validation", folds=2, scored_on="usual"):
    rows = [
        (dataset, method, protocol, "training_folds", 1, fold, measure, value, scored_on)
        for fold in range(1, folds + 1)
        for measure in ("kl_divergence", "clark")
    ]
    return pd.DataFrame(rows, columns=RESULT_COLUMNS)


DATASETS = ("SJAFFE", "Mine", "B")
COST = {"seconds": 2.0, "peak_memory_mib": 3.0, "memory_before_mib": 1.0}


def collect(scores, costs=None):
    """Collect the scores of cells; no run has recovered any other cell of their datasets."""
    datasets = tuple(dict.fromkeys(dataset for dataset, _ in scores))
    cells = [(dataset, method) for dataset in datasets for method in REPORTED_METHODS]
    entries = [*map(scores.get, cells), *map((costs or {}).get, cells)]
    results, missing = collect_available("cross_validation", 1, 2, *entries, datasets=datasets)
    asked = [tuple(cell) in scores for cell in missing[["dataset", "method"]].to_numpy()]
    return results, missing[asked].reset_index(drop=True)


def test_what_is_missing_is_said_and_the_rest_is_used(caplog):
    methods = ("conle", "km", "lp", "glle")
    scored = {
        (dataset, method): scores(dataset, method, 0.1)
        for dataset in DATASETS
        for method in methods
    }
    scored["SJAFFE", "lp"] = None
    scored["Mine", "lp"] = scores("Mine", "lp", 0.1, protocol="transductive")
    scored["B", "km"] = scores("B", "km", 0.1, folds=3)
    scored["B", "glle"] = scored["B", "glle"][:0]
    scored["Mine", "conle"] = scores("Mine", "conle", 0.1, scored_on="another seed")
    results, missing = collect(scored, {("B", "glle"): {"failure": "too wide"}})
    assert len(results) == 7 * 4
    assert missing.to_numpy().tolist() == [
        ["SJAFFE", "lp", "no run has recovered them"],
        [
            "Mine",
            "lp",
            "recovered under transductive on 2 folds; "
            "this report is of cross_validation on 1 x 2 folds",
        ],
        [
            "B",
            "km",
            "recovered under cross_validation on 3 folds; "
            "this report is of cross_validation on 1 x 2 folds",
        ],
        ["B", "glle", "failed: too wide"],
        ["Mine", "conle", "of another seed or threshold than most others"],
    ]
    assert "Not in the report, no run has recovered them: SJAFFE: conle_posterior" in caplog.text


def test_scores_of_an_earlier_version_are_missing():
    old = scores("SJAFFE", "lp", 0.1).drop(columns="scored_on")
    results, missing = collect(
        {("SJAFFE", "conle"): scores("SJAFFE", "conle", 0.1), ("SJAFFE", "lp"): old}
    )
    assert set(results["method"]) == {"conle"}
    assert missing.to_numpy().tolist() == [
        ["SJAFFE", "lp", "scored by an earlier version of this project"]
    ]


@pytest.mark.parametrize("empty", [False, True])
def test_from_scores_to_every_exhibit(empty):
    """An empty catalog makes empty tables, and exhibits that say so."""
    methods = ("conle", "lp", "km")
    cells = [(dataset, method) for dataset in DATASETS for method in methods]
    found = {
        cell: None if empty else scores(*cell, 0.1 * (number % 3 + 1))
        for number, cell in enumerate(cells)
    }
    results, missing = collect(found)
    assert len(missing) == (9 if empty else 0)
    facts = {"dataset": "B", "examples": 9, "features": 2, "labels": 3, "relevant_labels": 9}
    summary = summarise(results)
    catalog = {
        "published_sizes": pd.DataFrame(columns=["dataset", *tables.SIZES]),
        "published_ranks": RANKS,
        "published_recovery": PUBLISHED,
        "params:folds": 2,
        "B.statistics": None if empty else facts | {"sha256": "f"},
        "report.summary.csv": summary,
        "report.comparison.csv": compare_with_published(summary, PUBLISHED),
        "report.ablation_comparison.csv": compare_with_published(summary, PUBLISHED[:0]),
    }
    if not empty:
        catalog |= {f"{dataset}.{method}.cost": COST for dataset, method in cells}

    def entries(inputs):
        """Optional entries that no run has made are None."""
        return [catalog.get(own) for name in inputs for own in entry_names(name, DATASETS).values()]

    for name, table in TABLES.items():
        catalog[f"report.{name}.csv"] = tabulate(
            *entries(table.inputs), name=name, datasets=DATASETS
        )
    assert len(catalog["report.cost.csv"]) == (0 if empty else 9)
    assert set(catalog["report.table4.csv"]["measure"]) == (
        set() if empty else {"kl_divergence", "clark"}
    )
    for name, exhibit in EXHIBITS.items():
        made = present(*entries(exhibit.inputs), name=name, datasets=DATASETS)
        if exhibit.figure is None:
            assert r"\toprule" in made
            continue
        latex, figure, svg = made
        if exhibit.made_by:
            assert latex == (
                f"% Not in the catalog yet: kedro run --pipeline={exhibit.made_by} makes it\n"
            )
        else:
            assert latex == "" or r"\toprule" in latex
            assert figure.axes or empty
        assert svg.startswith("<?xml")


def test_the_same_figure_is_the_same_svg():
    table = tables.measure_table()
    first, again = (present(table, name="table2", datasets=()) for _ in range(2))
    assert first[2] == again[2]


def test_curves():
    sensitivity = pd.DataFrame(
        [("B", p, s, "clark", 0.1, 0.01, 9) for p in ("lambda1", "lambda2") for s in (0.1, 1.0)],
        columns=["dataset", "parameter", "setting", "measure", "mean", "std", "folds"],
    )
    latex, figure, _ = present(sensitivity, name="figure3", datasets=())
    assert latex.count(r"\toprule") == 2
    assert len(figure.axes) == 2
    convergence = pd.DataFrame(
        [("B", q, e, 0.1, 0.01, 9) for q in ("loss", "canberra", "clark") for e in (1, 2)],
        columns=["dataset", "quantity", "epoch", "mean", "std", "folds"],
    )
    latex, figure, _ = present(convergence, name="figure4", datasets=())
    assert "canberra" in latex
    assert "clark" not in latex
    assert len(figure.axes) == 2


def test_intervals_of_the_datasets_that_have_draws():
    draws = pd.DataFrame(
        [(7, chain, draw, 0.25, 0.75) for chain in (1, 2) for draw in (1, 2)],
        columns=["sample", "chain", "draw", "a", "b"],
    )
    coverage = pd.DataFrame(
        [(7, "a", 1, 0.3, 0.2, 0.4, 0.25), (7, "b", 0, 0.7, 0.6, 0.8, 0.75)],
        columns=["sample", "label", "logical", "mean", "low", "high", "true"],
    )
    examination = pd.DataFrame({"dataset": ["A"], "covered": [1.0]})
    contributions = pd.DataFrame({"dataset": ["A"], "published": [0.03]})
    # The second dataset has failed, and no run has examined the third.
    found = [draws, draws[:0], None, coverage, coverage[:0], None]
    latex, figure, _ = present(
        examination, contributions, *found, name="posterior", datasets=DATASETS
    )
    assert latex.count(r"\toprule") == 2
    assert [axes.get_title() for axes in figure.axes] == ["SJAFFE, sample 7"]


def test_inputs_with_placeholders_are_mappings():
    assert entry_names("published_sizes", ("A",)) == {(): "published_sizes"}
    names = entry_names("{dataset}.{decoder}.coverage", ("A", "B"))
    assert len(names) == 6
    assert names["B", "posterior_pca"] == "B.posterior_pca.coverage"
    inputs = ("sizes", "{dataset}.facts", "{dataset}.{decoder}.coverage")
    sizes, facts, coverages = gather(["s", "a", "b", *range(6)], inputs, ("A", "B"))
    assert (sizes, facts) == ("s", {"A": "a", "B": "b"})
    assert coverages["B", "conle_posterior"] == 3


def test_nodes_can_go_to_other_processes():
    for node in create_pipeline(DATASETS).nodes:
        pickle.loads(pickle.dumps(node))
