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
from conle.run import RecordedRun, runs_table

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
    results, missing = collect_available(runs_table([]), *entries, datasets=datasets)
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
    scored["B", "glle"] = scored["B", "glle"][:0]
    results, missing = collect(scored, {("B", "glle"): {"failure": "too wide"}})
    assert len(results) == 10 * 4
    assert missing.to_numpy().tolist() == [
        ["SJAFFE", "lp", "no run has recovered them"],
        ["B", "glle", "failed: too wide"],
    ]
    assert "Not in the report, no run has recovered them: SJAFFE: conle_posterior" in caplog.text


def test_without_any_run_of_the_protocol_the_runs_are_listed(caplog):
    record = {
        "pipelines": ["conle"],
        "datasets": ["SJAFFE"],
        "methods": ["conle", "uniform"],
        "parameters": {
            "protocol": "transductive",
            "repeats": 2,
            "folds": 5,
            "seed": 3,
            "threshold": 0.5,
        },
    }
    runs = runs_table([RecordedRun("v1", record, {"failed": {}})])
    entries = [None] * (2 * len(REPORTED_METHODS))
    results, _ = collect_available(runs, *entries, datasets=("SJAFFE",))
    assert results.empty
    assert "conle on SJAFFE (conle, uniform): transductive, 2 x 5 folds, seed 3" in caplog.text
    command = (
        'kedro run --pipeline=report --params "datasets=SJAFFE,protocol=transductive,repeats=2,'
        'folds=5,seed=3,threshold=0.5"'
    )
    assert command in caplog.text


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
