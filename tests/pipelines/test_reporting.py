import pandas as pd
import pytest

from conle.pipelines.evaluation.nodes import RESULT_COLUMNS, compare_with_published, summarise
from conle.pipelines.reporting.nodes import (
    collect_available,
    present_ablation,
    present_convergence,
    present_cost,
    present_datasets,
    present_measures,
    present_ranks,
    present_recovery,
    present_sensitivity,
    present_statistics,
    tabulate_cost,
    tabulate_datasets,
    tabulate_recovery,
)
from conle.reporting import statistics, tables

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


CELLS = tuple((dataset, m) for dataset in ("SJAFFE", "Mine", "B") for m in ("conle", "lp", "km"))


def test_what_is_missing_is_said_and_the_rest_is_used(caplog):
    found = [scores(dataset, method, 0.1) for dataset, method in CELLS]
    found[1] = None
    found[4] = scores("Mine", "lp", 0.1, protocol="transductive")
    found[8] = scores("B", "km", 0.1, folds=3)
    found[7] = found[7][:0]
    found[3] = scores("Mine", "conle", 0.1, scored_on="another seed")
    found[5] = scores("Mine", "km", 0.1)
    cells = (*CELLS, ("Mine", "fcm"))
    found.append(scores("Mine", "fcm", 0.1))
    costs = [{"failure": "too wide"}] * 10
    results, missing = collect_available("cross_validation", 1, 2, *found, *costs, cells=cells)
    assert len(results) == 5 * 4
    assert missing[["dataset", "method"]].to_numpy().tolist() == [
        ["SJAFFE", "lp"],
        ["Mine", "lp"],
        ["B", "lp"],
        ["B", "km"],
        ["Mine", "conle"],
    ]
    assert missing["reason"].tolist() == [
        "no run has recovered them",
        "recovered under transductive on 2 folds; "
        "this report is of cross_validation on 1 x 2 folds",
        "failed: too wide",
        "recovered under cross_validation on 3 folds; "
        "this report is of cross_validation on 1 x 2 folds",
        "of another seed or threshold than most others",
    ]
    assert "no run has recovered them: SJAFFE: lp" in caplog.text


def test_scores_of_an_earlier_version_are_missing():
    found = [scores("SJAFFE", "conle", 0.1), scores("SJAFFE", "lp", 0.1).drop(columns="scored_on")]
    results, missing = collect_available(
        "cross_validation", 1, 2, *found, None, None, cells=CELLS[:2]
    )
    assert set(results["method"]) == {"conle"}
    assert missing.to_numpy().tolist() == [
        ["SJAFFE", "lp", "scored by an earlier version of this project"]
    ]


@pytest.mark.parametrize("empty", [False, True])
def test_from_scores_to_every_exhibit(empty):
    """An empty catalog makes empty tables and says so, as every other."""
    found = [
        None if empty else scores(dataset, method, 0.1 * (number % 3 + 1))
        for number, (dataset, method) in enumerate(CELLS)
    ]
    costs = [None] * 9
    results, missing = collect_available("cross_validation", 1, 2, *found, *costs, cells=CELLS)
    assert len(missing) == (9 if empty else 0)
    summary = summarise(results)
    comparison = compare_with_published(summary, PUBLISHED)
    methods = ("conle", "lp", "km")
    table3 = tabulate_recovery(summary, comparison, methods=methods)
    table4 = tabulate_recovery(summary, comparison, methods=methods, measures=("clark",))
    assert set(table4["measure"]) == (set() if empty else {"clark"})
    ranks = tables.rank_table(table3, RANKS)
    wins = tables.wins_table(table3, PUBLISHED, folds=2)
    cost = {"seconds": 2.0, "peak_memory_mib": 3.0, "memory_before_mib": 1.0}
    costs = tabulate_cost(*(None if empty else cost for _ in CELLS), cells=CELLS)
    assert len(costs) == (0 if empty else 9)
    sizes = pd.DataFrame(columns=["dataset", *tables.SIZES])
    facts = {"dataset": "B", "examples": 9, "features": 2, "labels": 3, "relevant_labels": 9}
    table1 = tabulate_datasets(sizes, None if empty else facts | {"sha256": "f"})
    friedman, wilcoxon = statistics.friedman_table(table3), statistics.wilcoxon_table(table3)
    for latex, figure, svg in (
        present_datasets(table1),
        present_measures(tables.measure_table()),
        present_recovery(table3, ranks),
        present_ablation(table4),
        present_statistics(table3, friedman, wilcoxon),
        present_cost(costs),
    ):
        assert latex == "" or r"\toprule" in latex
        assert svg.startswith("<?xml")
        assert figure.axes or empty
    assert r"\toprule" in present_ranks(ranks, wins)


def test_the_same_figure_is_the_same_svg():
    table = tables.measure_table()
    assert present_measures(table)[2] == present_measures(table)[2]


@pytest.mark.parametrize("present", [present_sensitivity, present_convergence])
def test_curves_that_no_run_has_made(present):
    latex, _, svg = present(None)
    name = present.__name__.removeprefix("present_")
    assert latex == f"% Not in the catalog yet: kedro run --pipeline={name} makes it\n"
    assert svg.startswith("<?xml")


def test_curves():
    sensitivity = pd.DataFrame(
        [("B", p, s, "clark", 0.1, 0.01, 9) for p in ("lambda1", "lambda2") for s in (0.1, 1.0)],
        columns=["dataset", "parameter", "setting", "measure", "mean", "std", "folds"],
    )
    latex, figure, _ = present_sensitivity(sensitivity)
    assert latex.count(r"\toprule") == 2
    assert len(figure.axes) == 2
    convergence = pd.DataFrame(
        [("B", q, e, 0.1, 0.01, 9) for q in ("loss", "canberra", "clark") for e in (1, 2)],
        columns=["dataset", "quantity", "epoch", "mean", "std", "folds"],
    )
    latex, figure, _ = present_convergence(convergence)
    assert "canberra" in latex
    assert "clark" not in latex
    assert len(figure.axes) == 2
