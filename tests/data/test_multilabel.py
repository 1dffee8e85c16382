import logging
from types import SimpleNamespace

import h5py
import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from matlab_7_3 import write_hdf5
from scipy.io import savemat
from scipy.sparse import csc_matrix

from conle.data.multilabel import MultiLabelDataset
from conle.errors import RawFileError
from conle.pipelines.enhance.nodes import encode_features

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


@pytest.mark.parametrize("labels_key", ["target", "Targets", "y"])
@pytest.mark.parametrize("turned", [(), ("data",), ("labels",), ("data", "labels")])
def test_matlab_with_a_column_per_sample(tmp_path, caplog, labels_key, turned):
    """Four samples, three features, two labels."""
    features, labels = np.arange(12.0).reshape(4, 3), np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    savemat(
        tmp_path / "toy.mat",
        {
            "data": features.T if "data" in turned else features,
            labels_key: labels.T if "labels" in turned else labels,
        },
    )
    found, found_labels = load(tmp_path / "toy.mat")
    np.testing.assert_array_equal(found, features)
    np.testing.assert_array_equal(found_labels, labels)
    said = " and ".join("features" if name == "data" else name for name in turned)
    assert caplog.text.strip().endswith(f"samples are the columns of {said}" if turned else "")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"data": {"a": 1}, "target": np.eye(4)}, "features must be a .*, but 'data' is a struct"),
        (
            {"data": np.eye(4), "target": np.array([[1, "a"]], dtype=object)},
            "'target' is a cell ar",
        ),
        ({"x": "text", "target": np.eye(4)}, "features must be .*, but 'x' is a text"),
        ({"data": np.eye(4) + 1j, "target": np.eye(4)}, "'data' is complex128 "),
        ({"data": np.ones((4, 2, 2)), "target": np.eye(4)}, r"float64 \(4, 2, 2\)"),
        ({"data": np.eye(4), "target": np.eye(3)}, "4 rows of features but 3 of labels"),
        ({"data": np.eye(4), "target": np.eye(4), "Target": np.eye(4)}, "could both be meant"),
        (
            {"raw_data": np.eye(4), "target": np.eye(4), "s": {"a": 1}},
            r"no features; .* the file holds raw_data float64 \(4, 4\), s a struct, target .*4\)$",
        ),
        (
            {"data": np.eye(4), "target": 2 * np.eye(4, 3) - 1},
            r"column 'label_1' has -1.0 in row 1 .*: they are -1 and 1; write 0 for -1",
        ),
    ],
)
def test_matlab_variables_are_called_what_they_are(tmp_path, variables, message):
    savemat(tmp_path / "toy.mat", variables)
    with pytest.raises(RawFileError, match=message):
        load(tmp_path / "toy.mat")


def test_matlab_7_3_variables_that_are_no_matrices(tmp_path):
    path = tmp_path / "toy.mat"
    write_hdf5(path, data=np.eye(3)[:, :1], target=np.eye(3))
    # The reader makes a vector of a single column.
    np.testing.assert_array_equal(load(path)[0], [[1], [0], [0]])
    with h5py.File(path, "a") as file:
        del file["data"]
        file.create_group("data").attrs["MATLAB_class"] = np.bytes_("struct")
    with pytest.raises(RawFileError, match="'data' is a struct"):
        load(path)


@pytest.mark.parametrize("values", [["yes", "1", "0"], [1.0, 0.5, 0.0], [1, None, 0], [2, 1, 0]])
def test_labels_are_0_or_1(tmp_path, values):
    path = tmp_path / "toy.parquet"
    TABLE.assign(sea=values).to_parquet(path)
    with pytest.raises(
        RawFileError, match=r"labels must be 0 or 1, but column 'sea' (has .*|is empty) in row"
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
        (
            {"labels": "sky+moon"},
            "has no column 'moon'; there are: 'age', 'town', 'sky', 'sea', 'sun'$",
        ),
        ({"labels_prefix": "x"}, "no column begins with 'x'"),
        ({"labels_prefix": "tow_"}, "'sun'; did you mean 'town'\\?$"),
        ({"labels": "sky+sea+sunn"}, "no column 'sunn'; .*; did you mean 'sun'\\?$"),
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
        ("toy.csv", "", "is empty: its first line must name the columns"),
        ("toy.parquet", "PAR1", "cannot be read as .parquet"),
        ("toy.mat", "x", "is not a MATLAB file"),
        ("toy.arff", "@relation toy\n@attribute a nonsense\n@data\n1", "cannot be read as .arff"),
        ("toy.csv", "a,a,b\n1,1,1", "several columns are named 'a'"),
        ("toy.csv", "a,b,c\n1,1,1", "which columns are labels"),
    ],
)
def test_files_that_are_something_else(write, name, text, message):
    with pytest.raises(RawFileError, match=message):
        load(write(name, text))


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [("sky", -1, "-1"), ("sky", 2.5, "2.5"), ("sea", "NA", "'NA'")],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_wrong_labels_are_shown_as_in_the_file(tmp_path, kind, column, value, shown):
    path = tmp_path / f"toy.{kind}"
    table = TABLE.assign(**{column: [1, value, 0]})
    if kind == "csv":
        table.to_csv(path, index=False)
    else:
        table.astype({column: type(value)}).to_parquet(path)
    with pytest.raises(RawFileError) as error:
        load(path, labels_last=3)
    assert error.value.message.endswith(
        f"column '{column}' has {shown} in row 1 (from 0; 1 rows of it are neither)"
    )


def test_an_index_by_its_name(write, tmp_path):
    path = write("toy.csv", "age,patient,sky,sea\n3,p7,1,0\n4,NA,0,1\n")
    features, labels = load(path, labels_last=2, index="patient")
    assert features.index.tolist() == labels.index.tolist() == ["p7", "NA"]
    assert list(features) == ["age"]
    with pytest.raises(RawFileError, match="has no column 'p'; there are: 'age', 'patient'"):
        load(path, labels_last=2, index="p")
    savemat(tmp_path / "toy.mat", {"features": np.eye(3), "target": np.eye(3)})
    with pytest.raises(RawFileError, match="leave out index"):
        load(tmp_path / "toy.mat", index="patient")


def test_a_named_index_of_a_parquet_file(tmp_path, caplog):
    path = tmp_path / "toy.parquet"
    TABLE.assign(patient=list("xyz")).set_index("patient").to_parquet(path)
    with caplog.at_level(logging.INFO):
        assert_toy(load(path, labels_last=3), index=pd.Index(list("xyz"), name="patient"))
    assert "toy.parquet: the index is no feature: patient" in caplog.text
    with pytest.raises(RawFileError, match=r"has no column 'patient'.*; 'patient' is the index"):
        load(path, labels="patient+sky")
    TABLE.set_index("sky").to_parquet(path)
    with pytest.raises(RawFileError, match="'sky' begins with 's', but is the index"):
        load(path, labels_prefix="s")


@pytest.mark.parametrize("value", [[1, 2], np.ones(2), {"a": 1}])
@pytest.mark.parametrize("column", ["age", "sky"])
def test_cells_that_hold_several_values(tmp_path, column, value):
    path = tmp_path / "toy.parquet"
    TABLE.assign(**{column: [value] * 3}).to_parquet(path)
    with pytest.raises(RawFileError, match=f"column '{column}' holds several values in a row"):
        load(path, labels_last=3)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.array([[1], [2], [3]], dtype=pd.ArrowDtype(pyarrow.list_(pyarrow.int8()))), "list<.*>"),
        (
            pyarrow.ExtensionArray.from_storage(
                pyarrow.fixed_shape_tensor(pyarrow.int8(), [2]),
                pyarrow.array([[1, 2]] * 3, pyarrow.list_(pyarrow.int8(), 2)),
            ),
            r"fixed_size_list<.*>\[2\]",
        ),
    ],
)
def test_cells_of_an_arrow_type_that_hold_several_values(tmp_path, values, kind):
    table = pyarrow.Table.from_pandas(TABLE).append_column("v", pyarrow.array(values))
    pyarrow.parquet.write_table(table, tmp_path / "toy.parquet")
    with pytest.raises(RawFileError, match=rf"column 'v' holds several values in a row \({kind}\)"):
        load(tmp_path / "toy.parquet", labels="sky+sea")


def test_names_of_several_levels(tmp_path):
    pd.concat({"a": TABLE}, axis=1).to_parquet(tmp_path / "toy.parquet")
    message = r"columns have names of 2 levels, such as \('a', 'age'\): join them to one name"
    with pytest.raises(RawFileError, match=message):
        load(tmp_path / "toy.parquet", labels_last=3)


def test_blanks_around_names(write, tmp_path):
    """The second label is not left out, though its name begins with a blank."""
    path = write("toy.csv", "age, l_a,l_b \n3,1,0\n4,0,1\n")
    assert list(load(path, labels_prefix="l_")[1]) == ["l_a", "l_b"]
    TABLE.rename(columns={"sea": " sea"}).to_parquet(tmp_path / "toy.parquet")
    assert list(load(tmp_path / "toy.parquet", labels=" sea+sky")[1]) == ["sea", "sky"]
    with pytest.raises(RawFileError, match="no column begins with 'l_'; there are: 'age l_a'"):
        load(write("toy.csv", "age l_a\n3 1\n"), labels_prefix="l_")


def test_arff_after_a_byte_order_mark(write):
    assert_toy(load(write("toy.arff", f"\ufeff{LABELS_FIRST}")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DENSE + "1,Ulm,1,0\n", "line 11 has more or fewer values than there are attr"),
        (DENSE + "1,Ulm,1,0,1,1\n", "line 11 has more or fewer values than there are attr"),
        (DENSE.replace("\n", ",\n").replace("data,", "data"), "line 8 has more or fewer values"),
        (SPARSE + "{7 1}\n", "line 11 has more or fewer values than there are attr"),
        (DENSE + "1,Rom,1,0,1\n", "line 11"),
    ],
)
def test_arff_rows_that_do_not_fit(write, text, message):
    with pytest.raises(RawFileError, match=message):
        load(write("toy.arff", f"@relation toy\n{ATTRIBUTES}{text}"), labels_last=3)


@pytest.mark.parametrize("kind", ['date "yyyy-MM-dd"', "DATE", "relational"])
@pytest.mark.parametrize("name", ["born", "'born on'", '"born on"'])
def test_arff_attributes_that_are_not_read(write, name, kind):
    path = write("toy.arff", f"@relation toy\n@ATTRIBUTE {name} {kind}\n{ATTRIBUTES}{DENSE}")
    with pytest.raises(
        RawFileError, match=f"attribute {name} has the type (?i:date|relational), w"
    ):
        load(path, labels_last=3)


def test_the_number_of_a_meka_relation(write):
    path = write("toy.arff", f"@relation 'toy: -C 0'\n{ATTRIBUTES}{DENSE}")
    with pytest.raises(RawFileError, match="which columns are labels"):
        load(path)
    assert_toy(load(path, labels_last=3))


def test_a_file_that_is_not_utf_8(write):
    path = write("toy.arff", "")
    path.write_bytes(f"@relation toy\n% größe\n{ATTRIBUTES}{DENSE}".encode("latin-1"))
    with pytest.raises(RawFileError, match=r"toy.arff is not UTF-8; if it is text"):
        load(path, labels_last=3)


def test_a_sparse_table_that_would_not_fit_into_memory(write, monkeypatch):
    path = write("toy.arff", f"@relation 'toy: -C -3'\n{ATTRIBUTES}{SPARSE}")
    # Three rows and five columns of eight bytes.
    for free in (120, 119):
        monkeypatch.setattr(
            "psutil.virtual_memory", lambda free=free: SimpleNamespace(available=free)
        )
        if free == 120:
            assert_toy(load(path))
            continue
        with pytest.raises(
            RawFileError, match=r"toy.arff as a dense table, 3 x 5, does not fit into"
        ):
            load(path)


def test_sparse_rows_with_missing_values(write):
    text = SPARSE.replace("{4 1}", "{0 ?, 1 ?, 4 1}")
    features, _ = load(write("toy.arff", f"@relation 'toy: -C -3'\n{ATTRIBUTES}{text}"))
    assert (
        features["age"].isna().tolist() == features["town"].isna().tolist() == [False, True, False]
    )


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


BINARY = """@attribute word {0,1}
@attribute usual {1,0}
@attribute count integer
@attribute kind {a,b}
@attribute sky {0,1}
@attribute sea {0,1}
@data
"""


def test_a_sparse_table_has_the_values_of_the_dense_one(write):
    given = "{0 1, 2 3, 5 1}\n{}\n{0 ?, 1 0, 3 b, 4 1}\n"
    written_out = "1,1,3,a,0,1\n0,1,0,a,0,0\n?,0,0,b,1,0\n"
    header = f"@relation 'toy: -C -2'\n{BINARY}"
    features, labels = load(write("sparse.arff", header + given))
    dense, dense_labels = load(write("dense.arff", header + written_out))
    pd.testing.assert_frame_equal(labels, dense_labels)
    assert labels.to_numpy().tolist() == [[0, 1], [0, 0], [1, 0]]
    expected = {"word": [1, 0, np.nan], "usual": [1, 1, 0], "count": [3, 0, 0]}
    for name, values in expected.items():
        assert isinstance(features[name].dtype, pd.SparseDtype)
        np.testing.assert_array_equal(features[name].to_numpy(float), values)
        np.testing.assert_array_equal(dense[name].to_numpy(float), values)
    assert features["kind"].tolist() == dense["kind"].tolist() == ["a", "a", "b"]
    for name in ("sparse.arff", "dense.arff"):
        encoded, _ = encode_features(load(write(name, header + given), labels_last=2)[0])
        np.testing.assert_array_equal(encoded, [[1, 1, 3, 0], [0, 1, 0, 0], [0.5, 0, 0, 1]])
