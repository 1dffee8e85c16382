import numpy as np
import pandas as pd
import pytest

from conle.core.measures import MEASURES
from conle.reporting import tables

SUMMARY = pd.DataFrame(
    [
        # KL of the first two rounds to the same third decimal.
        ("A", "conle", "kl_divergence", 0.0304, 0.01),
        ("A", "lp", "kl_divergence", 0.0301, 0.01),
        ("A", "label_posterior", "kl_divergence", 0.0500, 0.01),
        ("A", "conle", "cosine", 0.96, 0.01),
        ("A", "lp", "cosine", 0.94, 0.01),
        ("A", "label_posterior", "cosine", 0.98, 0.01),
        ("B", "conle", "kl_divergence", 0.10, 0.05),
        ("B", "label_posterior", "kl_divergence", 0.08, 0.05),
    ],
    columns=["dataset", "method", "measure", "mean", "std"],
).assign(folds=4, fitted_on=lambda rows: np.where(rows["method"] == "lp", "all", "training_folds"))
COMPARISON = pd.DataFrame(
    [("A", "lp", "cosine", 0.95, -0.01, "odd"), ("A", "conle", "cosine", 0.95, 0.01, None)],
    columns=["dataset", "method", "measure", "published", "difference", "suspect"],
).assign(compared_with=lambda rows: rows["measure"])
METHODS = ("conle", "lp", "label_posterior")


@pytest.fixture
def recovery():
    return tables.recovery_table(SUMMARY, COMPARISON, METHODS)


def test_every_measure_has_its_formula():
    assert set(tables.FORMULAS) == set(MEASURES)
    table = tables.measure_table()
    assert len(table) == len(MEASURES)
    canberra = table.set_index("measure").loc["Canberra"]
    assert canberra["better"] == "smaller"
    assert "without it" in canberra["note"]


def test_sizes_stand_beside_the_published_ones():
    published = pd.DataFrame({"dataset": ["A"], "examples": [3], "features": [2], "labels": [5]})
    own = {"examples": 3, "features": 2, "labels": 4, "relevant_labels": 7, "sha256": "ab"}
    table = tables.dataset_table([{"dataset": "A", **own}, {"dataset": "B", **own}], published)
    assert table["labels_published"].tolist()[0] == 5
    assert pd.isna(table["labels_published"].tolist()[1])
    assert table["relevant_labels"].tolist() == [7, 7]
    assert tables.dataset_table([], published).empty


def test_ranks_are_of_rounded_means_and_ties_share_the_best(recovery):
    ranks = recovery.set_index(["dataset", "measure", "method"])["rank"]
    assert ranks["A", "kl_divergence"].to_dict() == {"conle": 1, "lp": 1, "label_posterior": 3}
    # Larger is better.
    assert ranks["A", "cosine"].to_dict() == {"label_posterior": 1, "conle": 2, "lp": 3}


def test_published_values_stand_beside_their_cells(recovery):
    cells = recovery.set_index(["dataset", "measure", "method"])
    assert cells.loc[("A", "cosine", "lp"), "published"] == 0.95
    assert cells.loc[("A", "cosine", "lp"), "suspect"] == "odd"
    assert pd.isna(cells.loc[("A", "kl_divergence", "lp"), "published"])


def test_a_published_value_stands_with_the_measure_that_it_is_of():
    other = "kl_divergence_reversed"
    rows = SUMMARY[SUMMARY["measure"] == "kl_divergence"]
    summary = pd.concat([rows, rows.assign(measure=other, mean=0.2)])
    comparison = COMPARISON[:1].assign(measure="kl_divergence", compared_with=other)
    cells = tables.recovery_table(summary, comparison, METHODS)
    cells = cells.set_index(["dataset", "measure", "method"])
    assert pd.isna(cells.loc[("A", "kl_divergence", "lp"), "published"])
    assert cells.loc[("A", other, "lp"), "published"] == 0.95


def test_average_ranks(recovery):
    """Among the paper's own methods the reference does not count."""
    published = pd.DataFrame(
        [("conle", "cosine", 1.15), ("lp", "cosine", 4.76)],
        columns=["method", "measure", "average_rank"],
    )
    on_a = recovery[recovery["dataset"] == "A"]
    ranks = tables.rank_table(on_a, published).set_index(["measure", "method"])
    assert (ranks["datasets"] == 1).all()
    assert ranks.loc[("cosine", "conle"), "average_rank"] == 2
    assert ranks.loc[("cosine", "conle"), "rank_among_the_papers"] == 1
    assert ranks.loc[("cosine", "lp"), "rank_among_the_papers"] == 2
    assert ranks.loc[("cosine", "lp"), "published"] == 4.76
    assert np.isnan(ranks.loc[("cosine", "label_posterior"), "rank_among_the_papers"])
    # LP is missing on B: it is left out, and ConLE comes before it no more.
    both = tables.rank_table(recovery, published).set_index(["measure", "method"])
    assert (both["datasets"] == 2).all()
    assert ("cosine", "lp") not in both.index
    assert both.loc[("kl_divergence", "label_posterior"), "average_rank"] == 1.5


def test_wins_over_the_published_conle(recovery):
    published = pd.DataFrame(
        [
            ("A", "conle", "kl_divergence", 0.030),
            ("A", "conle", "cosine", 0.970),
            # Lost by .01 by ConLE, whose standard error is .05 sqrt(1 / 4 + 1 / 3).
            ("B", "conle", "kl_divergence", 0.090),
            ("B", "lp", "kl_divergence", 0.5),
        ],
        columns=["dataset", "method", "measure", "value"],
    )
    wins = tables.wins_table(recovery, published, folds=4).set_index("method")
    assert wins.loc["conle"].tolist() == [3, 1, 1, 1, 3]
    assert wins.loc["lp"].tolist() == [2, 1, 0, 1, 2]
    assert wins.loc["label_posterior"].tolist()[:3] == [3, 2, 0]
    assert pd.isna(wins.loc["label_posterior", "better_than_label_posterior"])


def test_one_measure_as_the_paper_shows_it(recovery):
    published = pd.DataFrame({"method": ["lp"], "measure": "cosine", "average_rank": [4.76]})
    recovery = recovery[recovery["dataset"] == "A"]
    grid = tables.recovery_grid(recovery, "cosine", tables.rank_table(recovery, published))
    assert grid.headings == ["dataset", "ConLE", "LP*", "label posterior"]
    (row,) = grid.rows
    assert [cell.text for cell in row] == [
        "A",
        "0.9600 ± 0.0100",
        "0.9400 ± 0.0100",
        "0.9800 ± 0.0100",
    ]
    assert [cell.best for cell in row] == [False, False, False, True]
    assert row[1].beside == "0.950 (+0.010)"
    assert row[2].beside == "0.950? (-0.010)"
    assert row[2].note == "suspect: odd"
    assert [cell.text for cell in grid.footer[0]] == ["average rank", "2.00", "3.00", "1.00"]
    assert [cell.text for cell in grid.footer[2]] == ["published average rank", "", "4.76", ""]


def test_a_cell_that_is_not_there_is_a_dash(recovery):
    grid = tables.recovery_grid(recovery, "kl_divergence")
    assert grid.rows[1][2].text == "–"


def test_any_table_as_it_is_read():
    table = pd.DataFrame(
        {
            "method": ["conle", "mine"],
            "p_value": [1.5e-7, np.nan],
            "cells": pd.array([3, None], dtype="Int64"),
            "good": [True, False],
        }
    )
    grid = tables.grid_of(table)
    assert grid.headings == ["method", "p value", "cells", "good"]
    assert [cell.text for cell in grid.rows[0]] == ["ConLE", "1.5e-07", "3", "True"]
    assert [cell.text for cell in grid.rows[1]] == ["mine", "", "", "False"]
    assert grid.rows[0][2].value == 3


def test_curves_side_by_side():
    rows = pd.DataFrame(
        {
            "dataset": "A",
            "setting": [1.0, 5.0, 1.0, 5.0],
            "measure": ["clark", "clark", "cosine", "cosine"],
            "mean": [0.1, 0.2, 0.3, 0.4],
            "std": [0.01, np.nan, 0.03, 0.04],
        }
    )
    table = tables.curve_table(rows, "setting", "measure")
    assert table.columns.tolist() == ["dataset", "setting", "clark", "cosine"]
    assert table.iloc[1].tolist() == ["A", 5.0, "0.2000", "0.4000 ± 0.0400"]


def test_a_learner_against_the_same_on_the_true_distributions():
    kl = {"true_distributions": (0.02, 0.04, 1.0), "conle": (0.03, 0.08), "uniform": (0.02, 0.02)}
    table = pd.DataFrame(
        [
            (dataset, method, measure, mean if measure == "kl_divergence" else 7.0)
            for method, means in kl.items()
            # The others have failed on Movie.
            for dataset, mean in zip(("SJAFFE", "SBU_3DFE", "Movie"), means, strict=False)
            for measure in ("kl_divergence", "clark")
        ],
        columns=["dataset", "method", "measure", "mean"],
    )
    found = tables.against_the_truth(table)
    assert list(found) == ["uniform", "conle"]
    assert found == pytest.approx({"conle": (1.5 * 2) ** 0.5, "uniform": 0.5**0.5})
    assert tables.against_the_truth(table[table["method"] != "true_distributions"]) == {}
    assert tables.against_the_truth(table[:0]) == {}
