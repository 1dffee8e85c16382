import io
import re

import pandas as pd
import pytest
from rich.console import Console

from conle.core.measures import MEASURES
from conle.reporting.console import checks_table, print_recovery
from conle.reporting.scores import summarise


def texts(table, column):
    return list(table.columns[column].cells)


LONG_TITLES = ("conle_posterior_no_floor", "posterior_featureless", "km", "lp", "label_posterior")


def printed(width, datasets=("Toy",), methods=("conle", "lp", "label_posterior")):
    """What is printed of results with three folds, at a width."""
    values = {"conle": 0.25, "lp": 0.5}
    rows = [
        (dataset, method, "cross_validation", fitted_on, 1, fold, measure, value + fold / 100)
        for dataset in datasets
        for method in methods
        for fold in (1, 2, 3)
        for measure in MEASURES
        for value in [values.get(method, 11.25)]
        for fitted_on in ["all" if method == "lp" else "training_folds"]
    ]
    columns = ["dataset", "method", "protocol", "fitted_on", "repeat", "fold", "measure", "value"]
    results = pd.DataFrame(rows, columns=columns)
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
    print_recovery(console, summarise(results), results, folds=3)
    return console.export_text(clear=False), console.export_text(styles=True)


def test_a_table_per_dataset_with_the_best_in_bold():
    text, styled = printed(180)
    assert "Toy: means over the folds, best method in bold" in text
    assert "Intersection ↑" in text
    assert "0.2700 ± 0.0100" in text
    assert "LP*" in text
    assert "* fitted to all rows, the scored ones included" in text
    assert "Toy: ConLE is best by KL (0.2700), 0.2500 (48 %) below LP, certain" in text
    # ConLE is best in five distances, and LP in both similarities.
    assert [line.count("\x1b[1m") for line in styled.splitlines() if "ConLE  " in line] == [5]
    assert "fitted to all rows" not in printed(180, methods=("conle",))[0]


@pytest.mark.parametrize(("width", "heading"), [(80, "Int. ↑"), (120, "Intersection ↑")])
def test_a_narrow_terminal_shows_whole_numbers_without_deviations(width, heading):
    text, _ = printed(width, methods=("conle", *LONG_TITLES))
    table = text.split("* fitted")[0]
    assert heading in table
    assert "±" not in table
    assert "…" not in table
    lines = table.splitlines()
    assert max(map(len, lines)) <= width
    numbers = re.findall(r"\d+\.\d{4}", table)
    assert len(numbers) == (1 + len(LONG_TITLES)) * len(MEASURES)
    assert numbers.count("11.2700") == (len(LONG_TITLES) - 1) * len(MEASURES)


def test_many_datasets_share_one_table():
    text, _ = printed(80, datasets=("A", "B", "C", "D"))
    assert "Means over 4 datasets" in text
    assert "A: means" not in text
    assert "D: ConLE is best by KL" in text


def test_checks_show_counts_without_decimals():
    checks = pd.DataFrame({"check": ["samples", "entropy"], "value": [3.0, 0.25]})
    assert texts(checks_table(checks), 1) == ["3", "0.2500"]
