import pickle
import subprocess
import sys

import fsspec
import pandas as pd
import pytest
from kedro.io.core import Version

from conle.data.atomic import PARTIAL, CSVDataset, TextDataset, WholeFiles, remove_left_over
from conle.process_identity import this_process


def test_a_file_has_its_name_when_it_is_written(tmp_path):
    files = WholeFiles(fsspec.filesystem("file"))
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
    files = WholeFiles(fsspec.filesystem("file"))
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
    files, path = WholeFiles(store), f"{bucket}/{mode}/a.txt"
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
    remove_left_over(tmp_path.glob(PARTIAL))
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
    remove_left_over(tmp_path.rglob(PARTIAL))
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 5
    assert not any(dead in name for name in left)
