import numpy as np
import pandas as pd

from conle.reporting import grids, tables


def test_one_measure_as_the_paper_shows_it(recovery):
    published = pd.DataFrame({"method": ["lp"], "measure": "cosine", "average_rank": [4.76]})
    recovery = recovery[recovery["dataset"] == "A"]
    grid = grids.recovery_grid(recovery, "cosine", tables.rank_table(recovery, published))
    assert grid.headings == ["dataset", "ConLE", "LP*", "label posterior"]
    (row,) = grid.rows
    assert [entry.text for entry in row] == [
        "A",
        "0.9600 ± 0.0100",
        "0.9400 ± 0.0100",
        "0.9800 ± 0.0100",
    ]
    assert [entry.best for entry in row] == [False, False, False, True]
    assert row[1].beside == "0.950 (+0.010)"
    assert row[2].beside == "0.950? (-0.010)"
    assert row[2].note == "suspect: odd"
    assert [entry.text for entry in grid.footer[0]] == ["average rank", "2.00", "3.00", "1.00"]
    assert [entry.text for entry in grid.footer[2]] == ["published average rank", "", "4.76", ""]


def test_a_missing_cell_is_a_dash(recovery):
    grid = grids.recovery_grid(recovery, "kl_divergence")
    assert grid.rows[1][2].text == "–"


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
