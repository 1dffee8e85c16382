"""Files made to run code, to read other files or to exhaust the machine when they are read."""

import ast
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import skops.io
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matlab_7_3 import write_hdf5
from safetensors.numpy import save_file
from scipy.io import savemat
from sklearn.pipeline import FunctionTransformer

import conle
from conle import known_datasets
from conle.data.mat import BenchmarkMatDataset
from conle.data.models import FittedModelDataset
from conle.data.multilabel import MultiLabelDataset
from conle.errors import DataError, RawFileError
from conle.pipelines.ingestion.nodes import ingest

REGISTRY = pd.read_csv(known_datasets.REGISTRY)


class Payload:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


@pytest.fixture
def trap(tmp_path):
    """A folder that is made if a payload is run, and a pickled payload."""
    folder = tmp_path / "payload was run"
    content = pickle.dumps(Payload(folder))
    yield folder, content
    assert not folder.exists()


def test_the_trap_itself(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "made")))
    assert (tmp_path / "made").is_dir()


def test_no_code_of_the_package_unpickles_or_evaluates():
    called = set()
    for path in Path(conle.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", "")}
                assert not names & {"pickle", "cloudpickle", "dill", "joblib", "shelve"}, path
            if isinstance(node, ast.Call):
                called.add(ast.unparse(node.func))
    assert not called & {"eval", "exec", "torch.load", "yaml.load", "np.load", "pd.read_pickle"}


@pytest.mark.parametrize("name", ["data.mat", "data.parquet", "data.csv", "data.arff"])
def test_a_pickle_by_another_name(trap, tmp_path, name):
    (tmp_path / name).write_bytes(trap[1])
    with pytest.raises(RawFileError):
        MultiLabelDataset(str(tmp_path / name), labels_last=None).load()


def test_a_torch_file_by_another_name(trap, tmp_path):
    torch.save(Payload(trap[0]), tmp_path / "data.mat")
    with pytest.raises(RawFileError, match="not a MATLAB file"):
        BenchmarkMatDataset(filepath=str(tmp_path / "data.mat")).load()


def test_pickled_objects_in_a_matlab_file(trap, tmp_path):
    path = tmp_path / "data.mat"
    cells = np.full((2, 2), trap[1].decode("latin-1"), dtype=object)
    savemat(path, {"features": cells})
    raw = BenchmarkMatDataset(filepath=str(path)).load()
    with pytest.raises(DataError, match="must be a matrix of real numbers"):
        ingest(raw, 2, REGISTRY, dataset="Toy")


def test_an_extension_type_with_a_pickle_in_a_parquet_file(trap, tmp_path):
    """Versions of pyarrow before 14 unpickled this type."""
    field = pyarrow.field(
        "x",
        pyarrow.int64(),
        metadata={
            "ARROW:extension:name": "arrow.py_extension_type",
            "ARROW:extension:metadata": trap[1],
        },
    )
    columns = [pyarrow.array([1, 2]), pyarrow.array([0, 1])]
    table = pyarrow.table(columns, schema=pyarrow.schema([field, ("label", pyarrow.int64())]))
    pyarrow.parquet.write_table(table, tmp_path / "data.parquet")
    features, labels = MultiLabelDataset(str(tmp_path / "data.parquet"), labels_last=1).load()
    assert features["x"].tolist() == [1, 2]
    assert labels["label"].tolist() == [0, 1]


@pytest.mark.parametrize(
    "xml",
    [
        '<!DOCTYPE l [<!ENTITY e "aaaaaaaaaaaaaaaaaaaa">]><labels><label name="&e;&e;"/></labels>',
        '<!DOCTYPE l [<!ENTITY e SYSTEM "file:///etc/hosts">]><labels><label name="&e;"/></labels>',
    ],
)
def test_entities_in_the_xml_of_labels(tmp_path, xml):
    (tmp_path / "toy.arff").write_text(
        "@relation toy\n@attribute a {0,1}\n@attribute b real\n@data\n"
    )
    (tmp_path / "toy.xml").write_text(xml)
    with pytest.raises(RawFileError, match="cannot be read as XML"):
        MultiLabelDataset(str(tmp_path / "toy.arff")).load()


def write_model(folder, encoder, **configuration):
    folder.mkdir()
    known = {"method": "uniform", "hyperparameters": {}, "features": 2, "labels": ["a", "b"]}
    (folder / "model.json").write_text(json.dumps(known | configuration))
    save_file({"nothing": np.zeros(1)}, folder / "weights.safetensors")
    encoder(folder / "encoder.skops")
    return FittedModelDataset(str(folder))


def test_a_model_whose_encoder_would_run_a_function(trap, tmp_path):
    def dump(path):
        skops.io.dump(FunctionTransformer(os.mkdir, kw_args={"path": str(trap[0])}), path)

    with pytest.raises(RawFileError, match=r"UntrustedTypesFoundException.*mkdir"):
        write_model(tmp_path / "model", dump).load()


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"method": "os"}, "no method 'os'"),
        ({"hyperparameters": {"__class__": "os"}}, "no hyperparameter '__class__'"),
        ({"labels": 7}, "TypeError"),
    ],
)
def test_a_model_whose_configuration_is_none(tmp_path, configuration, message):
    dataset = write_model(tmp_path / "model", lambda path: path.write_bytes(b""), **configuration)
    with pytest.raises(RawFileError, match=message):
        dataset.load()


def test_a_model_whose_weights_are_a_pickle(trap, tmp_path):
    dataset = write_model(tmp_path / "model", lambda path: path.write_bytes(b""))
    (tmp_path / "model" / "weights.safetensors").write_bytes(trap[1])
    with pytest.raises(RawFileError, match="cannot be read as a fitted model"):
        dataset.load()


@pytest.fixture(scope="module", params=["v5", "v7.3"])
def small_file(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "toy.mat"
    distributions = np.random.default_rng(0).dirichlet(np.ones(3), 8)
    variables = {"features": np.arange(16.0).reshape(8, 2), "labels": distributions}
    if request.param == "v5":
        savemat(path, variables)
    else:
        write_hdf5(path, userblock=0, **variables)
    return path


@settings(max_examples=300, deadline=None, derandomize=True)
@example(position=1, value=0, length=10**6)
@given(position=st.integers(0, 10**6), value=st.integers(0, 255), length=st.integers(0, 10**6))
def test_damaged_bytes_end_in_a_message_or_in_distributions(small_file, position, value, length):
    """No damaged file causes another error, invalid values or a partial output."""
    content = bytearray(small_file.read_bytes())
    content[position % len(content)] = value
    damaged = small_file.with_name("damaged.mat")
    damaged.write_bytes(content[: length if length < len(content) else None])
    try:
        raw = BenchmarkMatDataset(filepath=str(damaged)).load()
        features, distributions, *_ = ingest(raw, 2, REGISTRY, dataset="Toy")
    except (DataError, RawFileError):
        return
    assert np.isfinite(features.to_numpy()).all()
    np.testing.assert_allclose(distributions.sum(axis=1), 1, atol=1e-9)


def test_a_configuration_that_would_build_an_object(project, trap):
    local = project.folder / "conf" / "local" / "parameters.yml"
    local.write_text(f"seed: !!python/object/apply:os.mkdir ['{trap[0]}']\n")
    run = project.kedro("run", "--pipelines=ingestion")
    assert run.returncode == 1
    assert "Error: the configuration cannot be read" in run.stderr
    assert "Traceback" not in run.stderr
