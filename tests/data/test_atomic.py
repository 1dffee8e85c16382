import pickle
import subprocess
import sys

import fsspec
import numpy as np
import pandas as pd
import pytest
from kedro.io import DatasetError
from kedro.io.core import Version

from conle.data.atomic import (
    PARTIAL,
    AtomicFiles,
    CSVDataset,
    JSONDataset,
    MatplotlibDataset,
    ParquetDataset,
    SafetensorsDataset,
    TextDataset,
    remove_partial,
)
from conle.process_identity import this_process


def test_a_file_has_its_name_when_it_is_written(tmp_path):
    files = AtomicFiles(fsspec.filesystem("file"))
    path = tmp_path / "a.txt"
    with files.open(str(path), "w") as file:
        file.write("half")
        assert [found.name for found in tmp_path.iterdir()] == [f"a.txt~{this_process()}.partial"]
    assert path.read_text() == "half"
    assert files.exists(str(path))
    with files.open(str(path)) as file:
        assert file.read() == b"half"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_cannot_be_written_leaves_the_old_file(tmp_path, error):
    files = AtomicFiles(fsspec.filesystem("file"))
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write():
        with files.open(str(path), "w") as file:
            file.write("new")
            raise error

    with pytest.raises(error):
        write()
    assert [found.name for found in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_an_object_is_there_when_it_is_written(bucket, mode):
    store = fsspec.filesystem("s3", use_listings_cache=False)
    files, path = AtomicFiles(store), f"{bucket}/{mode}/a.txt"
    content = "whole" if mode == "w" else b"whole"
    with files.open(path, mode) as file:
        file.write(content)
        assert not store.exists(path)
    assert store.cat(path) == b"whole"

    def fail():
        with files.open(path, mode) as file:
            file.write(content[:2])
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        fail()
    assert store.cat(path) == b"whole"


def test_versions(tmp_path):
    dataset = CSVDataset(
        filepath=str(tmp_path / "a.csv"), save_args={"index": False}, version=Version(None, None)
    )
    dataset.save(pd.DataFrame({"a": [1, 2]}))
    assert dataset.load()["a"].tolist() == [1, 2]


ARRAYS = {"a": np.arange(3.0)}
TABLES = [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [3]})]


@pytest.mark.parametrize(
    ("dataset_class", "first", "second"),
    [
        (CSVDataset, *TABLES),
        (ParquetDataset, *TABLES),
        (JSONDataset, {"a": 1}, {"b": [2]}),
        (TextDataset, "first", "second"),
        (SafetensorsDataset, ARRAYS, {"b": np.ones((2, 2))}),
    ],
)
def test_a_version_may_be_written_again(tmp_path, dataset_class, first, second):
    """A node that is run again replaces its version."""
    options = {"save_args": {"index": False}} if dataset_class is CSVDataset else {}
    dataset = dataset_class(filepath=str(tmp_path / "a"), version=Version("v1", "v1"), **options)
    for data in (first, second):
        dataset.save(data)
        loaded = dataset.load()
        if isinstance(data, pd.DataFrame):
            pd.testing.assert_frame_equal(loaded, data)
        else:
            np.testing.assert_equal(loaded, data)
    assert [path.name for path in (tmp_path / "a").rglob("*")] == ["v1", "a"]


def test_a_picture_may_be_written_again(tmp_path):
    from matplotlib.figure import Figure

    dataset = MatplotlibDataset(filepath=str(tmp_path / "a.png"), version=Version("v1", "v1"))
    sizes = []
    for inches in (1, 2):
        dataset.save(Figure(figsize=(inches, inches)))
        sizes.append((tmp_path / "a.png" / "v1" / "a.png").stat().st_size)
    assert sizes[1] > sizes[0]


def test_a_version_in_an_object_store_may_be_written_again(bucket):
    dataset = JSONDataset(filepath=f"{bucket}/again/a.json", version=Version("v1", "v1"))
    for number in (1, 2):
        dataset.save({"a": number})
        assert dataset.load() == {"a": number}


def test_a_version_that_cannot_be_written_again_stays(tmp_path):
    dataset = JSONDataset(filepath=str(tmp_path / "a.json"), version=Version("v1", "v1"))
    dataset.save({"a": 1})
    with pytest.raises(DatasetError, match="not JSON serializable"):
        dataset.save({"a": object()})
    assert dataset.load() == {"a": 1}
    assert not list(tmp_path.rglob(PARTIAL))


def test_a_catalog_can_be_sent_to_workers(tmp_path):
    dataset = pickle.loads(pickle.dumps(TextDataset(filepath=str(tmp_path / "a.txt"))))
    dataset.save("text")
    assert dataset.load() == "text"


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process")
def test_a_killed_process_leaves_no_file_that_loads(tmp_path):
    script = (
        "import os, signal, sys\n"
        "from conle.data.atomic import TextDataset\n"
        "dataset = TextDataset(filepath=sys.argv[1])\n"
        "with dataset._fs.open(sys.argv[1], 'w') as file:\n"
        "    file.write('half')\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "a.txt"
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert killed.returncode == -9
    assert not path.exists()
    (partial,) = tmp_path.glob(PARTIAL)
    assert partial.name.startswith("a.txt~")
    remove_partial(tmp_path.glob(PARTIAL))
    assert list(tmp_path.iterdir()) == []


def test_only_what_the_dead_have_left_is_removed(tmp_path):
    """Nothing is known of processes on other hosts."""
    host, number, began = this_process().rsplit("_", 2)
    dead = f"{host}_{number}_{float(began) - 100:.2f}"
    for process in (this_process(), f"elsewhere_{number}_{began}", dead):
        (tmp_path / f"a.csv~{process}.partial").write_text("half")
        (tmp_path / f"model~{process}.partial").mkdir()
        (tmp_path / f"model~{process}.partial" / "model.json").write_text("{}")
    (tmp_path / "b.partial").write_text("a file of the user's")
    remove_partial(tmp_path.rglob(PARTIAL))
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 5
    assert not any(dead in name for name in left)
