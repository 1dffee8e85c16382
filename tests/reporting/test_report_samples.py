import json

import numpy as np
import pandas as pd
import pytest

from conle.reporting import samples
from conle.reporting.samples import sample_table, three_labels_as_colours, viewer

LABELS = ["label_1", "label_2"]
SAMPLES = 40


def recovered(degree, repeats=(1, 2)):
    """Rows of every sample, in another order; the first degree tells the sample and the repeat."""
    rows = pd.DataFrame(
        [
            (repeat, sample, degree + sample / 1000 + repeat)
            for repeat in repeats
            for sample in range(SAMPLES)
        ],
        columns=["repeat", "sample", "label_1"],
    )
    return rows.assign(label_2=0.5).sample(frac=1, random_state=0)


@pytest.fixture
def given():
    first = np.linspace(0, 1, SAMPLES)
    true = pd.DataFrame({"label_1": first, "label_2": 1 - first})
    drawn = range(SAMPLES - 1, 20, -1)
    intervals = pd.DataFrame(
        [(sample, label, sample / 100, sample / 50) for sample in drawn for label in LABELS],
        columns=["sample", "label", "low", "high"],
    )
    return {
        "true": {"A": true, "B": None},
        "logical": {"A": (true > 0.5).astype("int8"), "B": None},
        "recovered": {
            ("A", "conle"): recovered(0.1),
            ("A", "conle_posterior"): recovered(0.2),
            ("A", "lp"): None,
            ("A", "km"): recovered(0.3)[:0],
            ("B", "conle"): None,
        },
        "intervals": {("A", "conle_posterior"): intervals, ("B", "conle_posterior"): None},
    }


def test_the_first_samples_and_some_with_intervals(given):
    table = sample_table(**given)
    assert list(table) == samples.SAMPLE_COLUMNS
    assert set(table["dataset"]) == {"A"}
    assert list(dict.fromkeys(table["method"])) == ["conle", "conle_posterior"]
    own = table[table["method"] == "conle_posterior"].set_index(["sample", "label"])
    # The table has ten of the samples with intervals: 39 is the first of them, 30 the tenth.
    assert list(dict.fromkeys(table["sample"])) == [*range(30), *range(30, 40)]
    row = own.loc[17, "label_1"]
    assert row[["logical", "true", "recovered"]].tolist() == pytest.approx([0, 17 / 39, 1.217])
    assert row[["low", "high"]].isna().all()
    row = own.loc[35, "label_1"]
    assert row[["logical", "true", "recovered"]].tolist() == pytest.approx([1, 35 / 39, 1.235])
    assert row[["low", "high"]].tolist() == pytest.approx([0.35, 0.7])
    assert table.loc[table["method"] == "conle", ["low", "high"]].isna().all(axis=None)


def test_nothing_to_show():
    true = pd.DataFrame(np.full((2, 3), 1 / 3), columns=["a", "b", "c"])
    recovered = {("A", "conle"): None, ("B", "conle"): None}
    table = sample_table({"A": None, "B": true}, {"A": None, "B": true > 0}, recovered, {})
    assert list(table) == samples.SAMPLE_COLUMNS
    assert viewer(table) is None
    assert three_labels_as_colours({}, {"B": true}, recovered) == {}


def test_the_page_holds_rounded_lists(given):
    table = sample_table(**given).assign(dataset="</script>")
    held = viewer(table)["data"]
    assert "<" not in held
    (own,) = json.loads(held)
    assert own["name"] == "</script>"
    assert own["samples"][17] == 17
    assert own["labels"] == ["label 1", "label 2"]
    assert own["relevant"][17] == [0, 1]
    assert own["true"][17] == [0.4359, 0.5641]
    conle, posterior = own["methods"]
    assert conle["name"] == "ConLE"
    assert conle["degrees"][17] == [1.117, 0.5]
    assert "low" not in conle
    assert posterior["low"][17] is None
    assert posterior["high"][35] == [0.7, 0.7]


def test_the_same_table_is_the_same_chart(given):
    table = sample_table(**given)
    assert viewer(table) == viewer(table)
    assert json.loads(viewer(table)["chart"])["target_id"] == "sample-chart"


def test_only_three_labels_become_colours(given):
    assert three_labels_as_colours({}, given["true"], given["recovered"]) == {}
    true = pd.DataFrame(np.full((2, 3), 1 / 3), columns=["a", "b", "c"])
    rows = pd.DataFrame({"repeat": 1, "sample": [1, 0], "a": [0.1, 0.2], "b": 0.4, "c": 0.3})
    features = pd.DataFrame({"x": [5.0, 6.0]})
    pictures = three_labels_as_colours(
        {"A": features}, {"A": true}, {("A", "conle"): rows, ("A", "posterior_stacked"): rows}
    )
    found, panels = pictures["A"]
    assert found.tolist() == [[5.0], [6.0]]
    assert list(panels) == ["true", "ConLE"]
    assert panels["ConLE"][:, 0].tolist() == [0.2, 0.1]
