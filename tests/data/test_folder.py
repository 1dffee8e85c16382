import pickle

import pandas as pd
import pytest
from kedro.io import DatasetError
from kedro.io.core import Version
from matplotlib.figure import Figure

from conle.data.folder import CONTENTS, FolderDataset
from conle.data.recorded import RecordedDataset

TABLE = pd.DataFrame({"a": [1, 2], "b": ["x", "ä"]})


def folder(path, load=None, save="v1"):
    return FolderDataset(filepath=str(path / "report"), version=Version(load, save))


def test_a_folder_of_an_object_store():
    path = "memory://bucket/report"
    content = {"t.csv": TABLE, "t.tex": "ä", "t.png": Figure()}
    FolderDataset(filepath=path, version=Version(None, "v1")).save(content)
    found = FolderDataset(filepath=path, version=Version(None, None)).load()
    pd.testing.assert_frame_equal(found.pop("t.csv"), TABLE)
    assert found == {"t.tex": "ä"}


def test_tables_and_texts_come_back_and_pictures_are_files(tmp_path):
    content = {"t.csv": TABLE, "t.tex": "ä\n", "t.png": Figure(), "t.svg": "<svg/>"}
    pickle.loads(pickle.dumps(folder(tmp_path))).save(content)
    found = folder(tmp_path, "v1").load()
    assert list(found) == ["t.csv", "t.tex", "t.svg"]
    pd.testing.assert_frame_equal(found["t.csv"], TABLE)
    assert found["t.tex"] == "ä\n"
    png = tmp_path / "report" / "v1" / "report" / "t.png"
    assert png.read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_its_contents_is_not_complete(tmp_path):
    folder(tmp_path).save({"t.csv": TABLE})
    folder(tmp_path, save="v2").save({"t.csv": TABLE[:1]})
    assert len(folder(tmp_path).load()["t.csv"]) == 1
    (tmp_path / "report" / "v2" / "report" / CONTENTS).unlink()
    assert not folder(tmp_path, "v2").exists()
    assert len(folder(tmp_path).load()["t.csv"]) == 2


def test_a_version_is_replaced(tmp_path):
    folder(tmp_path).save({"t.csv": TABLE})
    folder(tmp_path).save({"t.csv": TABLE[:1]})
    assert len(folder(tmp_path, "v1").load()["t.csv"]) == 1


def test_nothing_is_there_before_the_first_run(tmp_path):
    assert not folder(tmp_path).exists()
    with pytest.raises(DatasetError):
        folder(tmp_path).load()


def test_what_runs_have_left_is_loaded_when_asked_for(tmp_path):
    recorded = RecordedDataset()
    assert recorded.load() == {}
    recorded.entries = {"tables": folder(tmp_path, "v1")}
    load = pickle.loads(pickle.dumps(recorded)).load()["tables"]
    folder(tmp_path).save({"t.tex": "later"})
    assert load() == {"t.tex": "later"}
    with pytest.raises(DatasetError, match="read-only"):
        recorded.save({})
