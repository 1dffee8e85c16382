import numpy as np
import pandas as pd

from conle.reporting import grids, tables
from conle.reporting.leaderboard import leaderboard


def test_one_dataset_has_methods_down_and_measures_across(recovery):
    (title, grid), _ = grids.recovery_grids(recovery)
    assert title == "A"
    assert grid.headings == ["method", "KL ↓", "Cosine ↑"]
    assert [[entry.text for entry in row] for row in grid.rows] == [
        ["ConLE", "0.0304", "0.9600"],
        ["LP*", "0.0301", "0.9400"],
    ]
    assert grid.rows[0][1].beside == "± 0.0100"
    # Means are rounded to three decimals; the reference, which is better, is no method.
    assert [[entry.best for entry in row[1:]] for row in grid.rows] == [[True, True], [True, False]]
    (reference,) = grid.footer
    assert [entry.text for entry in reference] == ["label posterior", "0.0500", "0.9800"]
    assert not any(entry.best for entry in reference)


def test_a_missing_mean_is_a_dash(recovery):
    without = recovery.drop(recovery[recovery["measure"].eq("cosine")].index[0])
    grid = grids.recovery_grid(without[without["dataset"] == "A"])
    assert grid.rows[0][2].text == "–"


def test_published_means_with_the_difference_beside_them(recovery):
    ((title, grid),) = grids.published_grids(recovery)
    assert (title, grid.headings) == ("A", ["method", "Cosine ↑"])
    assert [[entry.text, entry.beside] for _, entry in grid.rows] == [
        ["0.950", "+0.010"],
        ["0.950?", "-0.010"],
    ]
    assert grid.rows[1][1].note == "suspect: odd"


def test_average_ranks_beside_published_ones(recovery):
    published = pd.DataFrame({"method": ["lp"], "measure": "cosine", "average_rank": [4.76]})
    recovery = recovery[recovery["dataset"] == "A"]
    grid = grids.ranks_grid(tables.rank_table(recovery, published))
    (method, _, rank) = grid.rows[0]
    assert (method.text, rank.text, rank.beside) == ("LP", "1.00", "4.76")


def test_the_leaderboard_sets_the_references_apart(recovery):
    ranks = tables.rank_table(
        recovery[recovery["dataset"] == "A"],
        pd.DataFrame(columns=["method", "measure", "average_rank"]),
    )
    own = recovery[recovery["dataset"] == "A"]
    grid = grids.leaderboard_grid(leaderboard(own, ranks, folds=10), own)
    assert grid.headings[:2] == ["method", "average rank"]
    assert grid.headings[-1] == "better than label posterior"
    assert [row[0].text for row in grid.rows] == ["ConLE", "LP*"]
    assert [row[0].text for row in grid.footer] == ["label posterior"]
    # KL is better than the reference's, cosine is not.
    assert [row[-1].text for row in grid.rows] == ["1 of 2", "1 of 2"]
    assert grid.footer[0][-1].text == ""
    assert grid.rows[1][2].best
    assert not grid.footer[0][2].best


def test_any_table_as_it_is_read():
    table = pd.DataFrame(
        {
            "method": ["conle", "mine"],
            "p_value": [1.5e-7, np.nan],
            "cells": pd.array([3, None], dtype="Int64"),
            "good": [True, False],
            "fitted_on": "training_folds",
            "methods": "conle, mine",
        }
    )
    grid = grids.grid_of(table)
    assert grid.headings == ["method", "p", "cells", "good", "fitted on", "methods"]
    assert [entry.text for entry in grid.rows[0]] == [
        "ConLE",
        "1.5e-07",
        "3",
        "True",
        "training folds",
        "ConLE, mine",
    ]
    assert [entry.text for entry in grid.rows[1]][:4] == ["mine", "", "", "False"]
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
    grid = grids.curve_grid(rows, "setting", "measure")
    assert grid.headings == ["dataset", "setting", "Clark ↓", "Cosine ↑"]
    assert [entry.text for entry in grid.rows[1]] == ["A", "5", "0.2000", "0.4000 ± 0.0400"]
