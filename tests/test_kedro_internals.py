"""If an upgrade of Kedro moves a private attribute, a test here fails and names it."""

from pathlib import PurePosixPath

import fsspec
import pandas as pd
import pytest
from kedro.framework.hooks import hook_impl
from kedro.io import AbstractVersionedDataset, MemoryDataset
from kedro.io.core import Version

from conle import kedro_internals
from conle.data.atomic import CSVDataset
from conle.data.models import FittedModelDataset

TABLE = pd.DataFrame({"a": [1]})


@pytest.fixture
def dataset(tmp_path):
    """A table with the versions v1 and v2."""
    path = str(tmp_path / "a.csv")
    for version in ("v1", "v2"):
        CSVDataset(filepath=path, version=Version(version, version)).save(TABLE)
    return CSVDataset(filepath=path, version=Version(None, None))


@pytest.fixture
def unversioned(tmp_path):
    return CSVDataset(filepath=str(tmp_path / "b.csv"))


def test_the_attributes_exist(dataset):
    for name in ("_version", "_filepath", "_get_versioned_path", "_get_load_path"):
        assert hasattr(dataset, name), f"AbstractVersionedDataset has no {name} any more"
    for name in ("_fs", "_protocol"):
        assert hasattr(dataset, name), f"datasets of kedro-datasets have no {name} any more"
    for name in ("_get_save_path", "_get_load_path", "_get_versioned_path"):
        assert hasattr(AbstractVersionedDataset, name)


def test_is_versioned(dataset, unversioned):
    assert kedro_internals.is_versioned(dataset)
    assert not kedro_internals.is_versioned(unversioned)
    assert not kedro_internals.is_versioned(MemoryDataset())
    # A catalog has None for a name without an entry.
    assert not kedro_internals.is_versioned(None)


def test_pin(dataset, tmp_path):
    kedro_internals.pin(dataset, "v1", "v3")
    assert dataset.resolve_load_version() == "v1"
    assert dataset.resolve_save_version() == "v3"
    kedro_internals.pin(dataset, "v3", "v3")
    assert not dataset.exists()
    dataset.save(TABLE)
    assert (tmp_path / "a.csv" / "v3" / "a.csv").is_file()
    assert dataset.exists()


def test_pin_after_another_version_was_loaded(dataset):
    """Kedro caches the version that it has found; pinning another one must win."""
    assert dataset.resolve_load_version() == "v2"
    kedro_internals.pin(dataset, "v1", "v1")
    assert dataset.resolve_load_version() == "v1"


def test_versioned_path(dataset, tmp_path):
    path = kedro_internals.versioned_path(dataset, "v7")
    assert path == PurePosixPath(tmp_path / "a.csv" / "v7" / "a.csv")


def test_has(dataset, tmp_path):
    assert kedro_internals.has(dataset, "v1")
    assert not kedro_internals.has(dataset, "v7")
    model = FittedModelDataset(str(tmp_path / "model"), Version(None, None))
    (tmp_path / "model" / "v1" / "model").mkdir(parents=True)
    assert kedro_internals.has(model, "v1")
    assert not kedro_internals.has(model, "v2")
    (tmp_path / "model" / "v2" / "model").mkdir(parents=True)
    assert model.list_versions(full_path=False) == ["v2", "v1"]
    assert dataset.list_versions(full_path=False) == ["v2", "v1"]


def test_paths(dataset, unversioned, tmp_path):
    kedro_internals.pin(dataset, "v1", "v2")
    assert kedro_internals.load_path(dataset) == PurePosixPath(tmp_path / "a.csv" / "v1" / "a.csv")
    assert kedro_internals.save_path(dataset) == PurePosixPath(tmp_path / "a.csv" / "v2" / "a.csv")
    plain = PurePosixPath(tmp_path / "b.csv")
    assert kedro_internals.load_path(unversioned) == plain
    assert kedro_internals.save_path(unversioned) == plain


def test_file_system(dataset, tmp_path):
    protocol, files = kedro_internals.file_system(dataset)
    assert protocol == "file"
    assert files.exists(str(tmp_path / "a.csv"))
    protocol, files = kedro_internals.file_system(CSVDataset(filepath="memory://a.csv"))
    assert protocol == "memory"
    assert files.protocol == fsspec.filesystem("memory").protocol
    assert kedro_internals.file_system(FittedModelDataset(str(tmp_path))) == ("file", None)


class Recorder:
    def __init__(self):
        self.ran = []

    @hook_impl
    def after_node_run(self, node):
        self.ran.append(node)


def test_hook_manager():
    """Only the given hooks are registered, none of a plugin."""
    recorder = Recorder()
    manager = kedro_internals.hook_manager([recorder])
    manager.hook.after_node_run(
        node="a node", catalog=None, inputs={}, outputs={}, is_async=False, run_id=None
    )
    assert recorder.ran == ["a node"]
    assert list(manager.get_plugins()) == [recorder]
