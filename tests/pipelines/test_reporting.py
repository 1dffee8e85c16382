import pickle
from functools import partial

import pandas as pd
import pytest

from conle.pipelines.reporting.nodes import collect_available, present, present_all, tabulate
from conle.pipelines.reporting.pipeline import create_pipeline
from conle.reporting import figures, tables
from conle.reporting.exhibits import (
    EXHIBITS,
    TABLES,
    entries_of_input,
    recorded_entries,
    value_of_input,
)
from conle.reporting.scores import RESULT_COLUMNS
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


def recorded(datasets, found):
    """What runs have left: the entries that are found, and None for all others of the report."""
    return {name: partial(found.get, name) for name in recorded_entries(datasets)}


def collect(scores, costs=None):
    """Collect the scores of cells; no run has recovered any other cell of their datasets."""
    datasets = tuple(dict.fromkeys(dataset for dataset, _ in scores))
    found = {f"{dataset}.{method}.scores": own for (dataset, method), own in scores.items()}
    found |= {f"{dataset}.{method}.cost": own for (dataset, method), own in (costs or {}).items()}
    results, missing = collect_available(
        runs_table([]), recorded(datasets, found), datasets=datasets
    )
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
        ["SJAFFE", "lp", "no run of this protocol has recovered them"],
        ["B", "glle", "failed: too wide"],
    ]
    assert (
        "Not in the report, no run of this protocol has recovered them: SJAFFE: conle_adaptive, "
        "conle_posterior" in caplog.text
    )


def runs_of(*methods):
    """The table of runs of another protocol, a run for each method and the uniform distribution."""
    protocol = {"protocol": "transductive", "repeats": 2, "folds": 5, "seed": 3, "threshold": 0.5}
    shared = {"pipelines": ["conle"], "datasets": ["SJAFFE"], "parameters": protocol}
    return runs_table(
        [
            RecordedRun("v1", shared | {"methods": [method, "uniform"]}, {"failed": {}})
            for method in methods
        ]
    )


def test_runs_of_another_protocol_that_have_what_is_missing_are_listed(caplog):
    """The report has ConLE and the uniform distribution, but not LP."""
    found = {f"SJAFFE.{own}.scores": scores("SJAFFE", own, 0.1) for own in ("conle", "uniform")}
    left = recorded(("SJAFFE",), found)
    collect_available(runs_of("conle", "lp"), left, datasets=("SJAFFE",))
    listed = caplog.messages[-1]
    assert listed.startswith("Other runs have some of them; their parameters or data differ")
    assert "conle on SJAFFE (lp, uniform): transductive, 2 x 5 folds, seed 3" in listed
    assert "(conle, uniform)" not in listed
    caplog.clear()
    collect_available(runs_of("conle"), left, datasets=("SJAFFE",))
    assert len(caplog.messages) == 1


def test_without_any_run_of_the_protocol_the_runs_are_listed(caplog):
    runs = runs_of("conle")
    results, _ = collect_available(runs, recorded(("SJAFFE",), {}), datasets=("SJAFFE",))
    assert results.empty
    assert "conle on SJAFFE (conle, uniform): transductive, 2 x 5 folds, seed 3" in caplog.text
    command = (
        'kedro run --pipeline=report --params "datasets=SJAFFE,protocol=transductive,repeats=2,'
        'folds=5,seed=3,threshold=0.5"'
    )
    assert command in caplog.text


@pytest.mark.parametrize("empty", [False, True])
def test_from_scores_to_every_exhibit(empty):
    """An empty catalog makes empty tables; exhibits say so in LaTeX and have no figure."""
    methods = ("conle", "lp", "km")
    cells = [(dataset, method) for dataset in DATASETS for method in methods]
    found = {
        cell: None if empty else scores(*cell, 0.1 * (number % 3 + 1))
        for number, cell in enumerate(cells)
    }
    results, missing = collect(found)
    assert len(missing) == (9 if empty else 0)
    facts = {"dataset": "B", "examples": 9, "features": 2, "labels": 3, "relevant_labels": 9}
    left = {}
    if not empty:
        left = {"B.statistics": facts | {"sha256": "f"}}
        left |= {f"{dataset}.{method}.cost": COST for dataset, method in cells}
    own = {"recorded": recorded(DATASETS, left), "datasets": DATASETS}
    made = tabulate(
        **own,
        results=results,
        folds=2,
        published_sizes=pd.DataFrame(columns=["dataset", *tables.SIZES]),
        published_ranks=RANKS,
        published_recovery=PUBLISHED,
        published_ablation=PUBLISHED[:0],
    )
    assert set(made) == {f"{name}.csv" for name in TABLES}
    assert len(made["cost.csv"]) == (0 if empty else 9)
    assert set(made["table4.csv"]["measure"]) == (set() if empty else {"kl_divergence", "clark"})
    presented = present_all(tables=made, **own, sensitivity=None, convergence=None, predictive=None)
    for name, exhibit in EXHIBITS.items():
        shown = name == "table2" or not (empty or exhibit.made_by or name == "colours")
        assert (f"{name}.tex" in presented) == (exhibit.grids is not None)
        if exhibit.grids is not None:
            latex = presented[f"{name}.tex"]
            assert r"\toprule" in latex if shown else latex == f"% {exhibit.absent}\n"
        drawn = {f"{name}.png", f"{name}.svg"} & presented.keys()
        assert bool(drawn) == (shown and exhibit.figure is not None)
        if drawn:
            assert presented[f"{name}.png"].axes
            assert presented[f"{name}.svg"].startswith("<?xml")
    assert EXHIBITS["posterior"].absent == (
        "Not in the catalog yet: kedro run --pipeline=posterior makes it"
    )


def test_the_same_figure_is_the_same_svg():
    table = tables.measure_table()
    first, again = (figures.as_svg(present("table2", [table])[1]) for _ in range(2))
    assert first == again


def test_curves():
    sensitivity = pd.DataFrame(
        [("B", p, s, "clark", 0.1, 0.01, 9) for p in ("lambda1", "lambda2") for s in (0.1, 1.0)],
        columns=["dataset", "parameter", "setting", "measure", "mean", "std", "folds"],
    )
    latex, figure = present("figure3", [sensitivity])
    assert latex.count(r"\toprule") == 2
    assert len(figure.axes) == 2
    convergence = pd.DataFrame(
        [("B", q, e, 0.1, 0.01, 9) for q in ("loss", "canberra", "clark") for e in (1, 2)],
        columns=["dataset", "quantity", "epoch", "mean", "std", "folds"],
    )
    latex, figure = present("figure4", [convergence])
    assert r"objective & Canberra $\downarrow$" in latex
    assert "Clark" not in latex
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
    found = [
        dict(zip(DATASETS, own, strict=True))
        for own in ((draws, draws[:0], None), (coverage, coverage[:0], None))
    ]
    latex, figure = present("posterior", [examination, contributions, *found])
    assert latex.count(r"\toprule") == 2
    assert [axes.get_title() for axes in figure.axes] == ["SJAFFE, sample 7"]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["a", "b"]


def test_inputs_with_placeholders_are_mappings():
    names = entries_of_input("{dataset}.{decoder}.coverage", ("A", "B"))
    assert len(names) == 6
    assert names["B", "posterior_pca"] == "B.posterior_pca.coverage"
    assert entries_of_input("{dataset}.facts", ("A",)) == {"A": "A.facts"}
    left = {"A.facts": lambda: "a", "B.facts": lambda: "b"}
    assert value_of_input("sizes", {"sizes": "s"}, left, ("A", "B")) == "s"
    assert value_of_input("{dataset}.facts", {}, left, ("A", "B")) == {"A": "a", "B": "b"}


def test_nodes_can_go_to_other_processes():
    for node in create_pipeline(DATASETS).nodes:
        pickle.loads(pickle.dumps(node))
