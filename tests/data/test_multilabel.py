import numpy as np
import pandas as pd
import pytest
from matlab_7_3 import write_hdf5
from scipy.io import savemat
from scipy.sparse import csc_matrix

from conle.data.multilabel import MultiLabelDataset
from conle.errors import RawFileError

FEATURES = pd.DataFrame({"age": [3.5, 0.0, 7.0], "town": ["Ulm", "Bonn", "Ulm"]})
LABELS = pd.DataFrame({"sky": [1, 0, 1], "sea": [0, 0, 1], "sun": [1, 1, 0]}, dtype="int8")
TABLE = pd.concat([FEATURES, LABELS], axis=1)

ATTRIBUTES = """@attribute age numeric
@attribute town {Bonn,Ulm}
@attribute sky {0,1}
@attribute sea {0,1}
@attribute sun {0,1}
"""
DENSE = "@data\n3.5,Ulm,1,0,1\n0,Bonn,0,0,1\n7,Ulm,1,1,0\n"
SPARSE = "@data\n{0 3.5, 1 Ulm, 2 1, 4 1}\n{4 1}\n{0 7, 1 Ulm, 2 1, 3 1}\n"
LABELS_FIRST = """@relation 'toy: -C 3'
@attribute sky {0,1}
@attribute sea {0,1}
@attribute sun {0,1}
@attribute age numeric
@attribute town {Bonn,Ulm}
@data
1,0,1,3.5,Ulm
0,0,1,0,Bonn
1,1,0,7,Ulm
"""
XML = """<?xml version="1.0" encoding="utf-8"?>
<labels xmlns="http://mulan.sourceforge.net/labels">
<label name="sky"><label name="sea"></label></label>
<label name="sun"></label>
</labels>
"""


def load(path, **ways):
    return MultiLabelDataset(str(path), **ways).load()


def assert_toy(loaded, index=None):
    features, labels = loaded
    expected = LABELS if index is None else LABELS.set_axis(index)
    pd.testing.assert_frame_equal(labels, expected)
    assert features["age"].tolist() == [3.5, 0.0, 7.0]
    assert features["town"].tolist() == ["Ulm", "Bonn", "Ulm"]
    assert features.index.equals(labels.index)


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    "ways",
    [
        {"labels": "sky+sea+sun"},
        {"labels": ["sky", "sea", "sun"]},
        {"labels_prefix": "s"},
        {"labels_last": 3},
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(tmp_path, kind, ways):
    path = tmp_path / f"toy.{kind}"
    TABLE.to_csv(path, index=False) if kind == "csv" else TABLE.to_parquet(path)
    assert_toy(load(path, **ways))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_index_is_kept(tmp_path, kind):
    path = tmp_path / f"toy.{kind}"
    table = TABLE.set_axis(["c", "a", "b"])
    table.to_csv(path) if kind == "csv" else table.to_parquet(path)
    assert_toy(load(path, labels_last=3), index=["c", "a", "b"])


@pytest.mark.parametrize(
    "text",
    [
        f"@relation 'toy: -C -3'\n{ATTRIBUTES}{DENSE}",
        f"@relation 'toy: -C -3'\n{ATTRIBUTES}{SPARSE}",
        LABELS_FIRST,
    ],
)
def test_meka(write, text):
    assert_toy(load(write("toy.arff", text)))


@pytest.mark.parametrize("data", [DENSE, SPARSE])
def test_mulan(write, data):
    path = write("toy.arff", f"@relation toy\n{ATTRIBUTES}{data}")
    header = write("header.xml", XML)
    assert_toy(load(path, labels_xml=str(header)))
    with pytest.raises(RawFileError, match=r"which columns are labels.*labels_xml=FILE"):
        load(path)
    header.rename(path.with_suffix(".xml"))
    assert_toy(load(path))


@pytest.mark.parametrize("labels", [LABELS.to_numpy(), csc_matrix(LABELS.to_numpy(float))])
def test_matlab(tmp_path, labels):
    path = tmp_path / "toy.mat"
    savemat(path, {"features": np.eye(3), "logicalLabel": labels, "labels": np.ones((3, 3)) / 3})
    features, found = load(path)
    assert list(features) == ["feature_1", "feature_2", "feature_3"]
    np.testing.assert_array_equal(found, LABELS)
    with pytest.raises(RawFileError, match="a variable of their own: leave out labels_last"):
        load(path, labels_last=2)
    savemat(path, {"features": np.eye(3), "labels": np.ones((3, 3)) / 3})
    with pytest.raises(RawFileError, match="column 'label_1' has"):
        load(path)


def test_matlab_7_3(tmp_path):
    path = tmp_path / "toy.mat"
    write_hdf5(path, features=np.arange(12.0).reshape(3, 4), labels=LABELS)
    features, found = load(path)
    np.testing.assert_array_equal(features, np.arange(12.0).reshape(3, 4))
    np.testing.assert_array_equal(found, LABELS)


@pytest.mark.parametrize("values", [["yes", "1", "0"], [1.0, 0.5, 0.0], [1, None, 0], [2, 1, 0]])
def test_labels_are_0_or_1(tmp_path, values):
    path = tmp_path / "toy.parquet"
    TABLE.assign(sea=values).to_parquet(path)
    with pytest.raises(
        RawFileError, match=r"labels must be 0 or 1, but column 'sea' has .* in row"
    ):
        load(path, labels_last=3)


@pytest.mark.parametrize("values", [[True, False, True], ["1", "0", " 1"], ["True", "false", "1"]])
def test_labels_of_other_types(tmp_path, values):
    path = tmp_path / "toy.parquet"
    TABLE.assign(sky=values).to_parquet(path)
    _, labels = load(path, labels_last=3)
    assert labels["sky"].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ({}, "which columns are labels"),
        ({"labels": "sky+moon"}, "has no column moon; there are: age, town, sky, sea, sun"),
        ({"labels_prefix": "x"}, "no column begins with 'x'"),
        ({"labels_last": 5}, "a number from 1 to 4"),
        ({"labels_last": 0}, "a number from 1 to 4"),
        ({"labels_last": 2, "labels_prefix": "s"}, "several ways: labels_prefix, labels_last"),
        ({"labels": "age+town+sky+sea+sun"}, "every column would be a label"),
        ({"labels_xml": "none.xml"}, "none.xml is missing"),
    ],
)
def test_columns_that_are_not_there(tmp_path, ways, message):
    TABLE.to_csv(tmp_path / "toy.csv", index=False)
    with pytest.raises(RawFileError, match=message):
        load(tmp_path / "toy.csv", **ways)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("toy.xlsx", "", "files of this kind cannot be read; there are: .csv"),
        ("toy.csv", "", "cannot be read as .csv"),
        ("toy.parquet", "PAR1", "cannot be read as .parquet"),
        ("toy.mat", "x", "is not a MATLAB file"),
        ("toy.arff", "@relation toy\n@attribute a nonsense\n@data\n1", "cannot be read as .arff"),
        ("toy.csv", "a,a,b\n1,1,1", "several columns are named a"),
        ("toy.csv", "a,b,c\n1,1,1", "which columns are labels"),
    ],
)
def test_files_that_are_something_else(write, name, text, message):
    with pytest.raises(RawFileError, match=message):
        load(write(name, text))


def test_a_missing_file_and_names_that_occur_twice(tmp_path, write):
    with pytest.raises(RawFileError, match="missing"):
        load(tmp_path / "none.csv")
    text = "@relation 'toy: -C 1'\n@attribute a {0,1}\n@attribute b real\n@data\n1,2\n"
    path = write("toy.arff", text)
    write("toy.xml", "<labels></labels>")
    with pytest.raises(RawFileError, match="names no labels"):
        load(path)
    write("toy.xml", "<labels")
    with pytest.raises(RawFileError, match="cannot be read as XML"):
        load(path)
    bomb = """<!DOCTYPE labels [<!ENTITY a "x"><!ENTITY b "&a;&a;">]>"""
    write("toy.xml", f'{bomb}<labels><label name="&b;"/></labels>')
    with pytest.raises(RawFileError, match="cannot be read as XML: EntitiesForbidden"):
        load(path)
