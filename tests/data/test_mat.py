import h5py
import numpy as np
import pytest
import scipy.sparse
from matlab_7_3 import write_hdf5
from scipy.io import savemat

from conle.data.mat import BenchmarkMatDataset
from conle.errors import RawFileError


def saved(path, **variables):
    dataset = BenchmarkMatDataset(filepath=str(path))
    dataset.save(variables)
    return dataset


def test_what_is_saved_is_loaded(tmp_path):
    features = np.random.default_rng(0).normal(size=(4, 3))
    variables = saved(tmp_path / "made.mat", features=features).load()
    np.testing.assert_array_equal(variables["features"], features)
    assert variables["__file__"] == "made.mat"


def test_same_values_same_bytes(tmp_path):
    for name in ("a.mat", "b.mat"):
        saved(tmp_path / name, features=np.eye(3))
    assert (tmp_path / "a.mat").read_bytes() == (tmp_path / "b.mat").read_bytes()
    assert (tmp_path / "a.mat").read_bytes().startswith(b"MATLAB 5.0 MAT-file")


def test_checksum_is_that_of_the_file(tmp_path, real_data):
    known = dict(line.split()[::-1] for line in (real_data / "SHA256SUMS").open())
    variables = BenchmarkMatDataset(filepath=str(real_data / "SJAFFE.mat")).load()
    assert variables["__sha256__"] == known["SJAFFE.mat"]


def test_interrupted_saving_leaves_the_old_file(tmp_path, monkeypatch):
    dataset = saved(tmp_path / "made.mat", features=np.eye(3))
    before = (tmp_path / "made.mat").read_bytes()

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("fsspec.implementations.local.LocalFileOpener.write", fail, raising=False)
    with pytest.raises(Exception, match="no space left"):
        dataset.save({"features": np.zeros((100, 100))})
    assert (tmp_path / "made.mat").read_bytes() == before


def test_missing_file(tmp_path):
    with pytest.raises(RawFileError, match=r"nothing\.mat is missing"):
        BenchmarkMatDataset(filepath=str(tmp_path / "nothing.mat")).load()


@pytest.mark.parametrize("userblock", [0, 512])
def test_matlab_7_3_file(tmp_path, userblock):
    features = np.arange(12.0).reshape(4, 3)
    sparse = scipy.sparse.csc_matrix([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    path = tmp_path / "new.mat"
    write_hdf5(path, userblock, features=features, logicalLabel=sparse)
    variables = BenchmarkMatDataset(filepath=str(path)).load()
    np.testing.assert_array_equal(variables["features"], features)
    np.testing.assert_array_equal(variables["logicalLabel"], sparse.toarray())


def test_damaged_matlab_7_3_file(tmp_path):
    path = tmp_path / "new.mat"
    dataset = BenchmarkMatDataset(filepath=str(path))
    write_hdf5(path, features=np.random.default_rng(0).normal(size=(200, 30)))
    content = path.read_bytes()
    for damaged in (content[:600], content[: len(content) // 2], content[:520] + bytes(400)):
        path.write_bytes(damaged)
        with pytest.raises(RawFileError, match=r"new\.mat is not a MATLAB file, or is damaged"):
            dataset.load()
    write_hdf5(path)
    with pytest.raises(RawFileError, match="there are no variables in it"):
        dataset.load()


def test_other_kinds_of_files_are_called_what_they_are(tmp_path):
    path = tmp_path / "toy.mat"
    dataset = BenchmarkMatDataset(filepath=str(path))
    with h5py.File(path, "w") as file:
        file["features"], file["labels"] = np.eye(3), np.eye(3)
    with pytest.raises(
        RawFileError, match=r"toy.mat: this is an HDF5 file without MATLAB's attributes"
    ):
        dataset.load()
    savemat(path, {"features": np.eye(3)}, format="4")
    with pytest.raises(RawFileError, match=r"toy.mat: this begins as a MATLAB v4 file does"):
        dataset.load()


def test_a_name_of_a_matlab_7_3_file_that_is_no_text(tmp_path):
    path = tmp_path / "toy.mat"
    write_hdf5(path, features=np.eye(2))
    path.write_bytes(path.read_bytes().replace(b"features", b"feat\xffres"))
    with pytest.raises(RawFileError, match="the name of a variable is no text"):
        BenchmarkMatDataset(filepath=str(path)).load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"", "not a MATLAB file"),
        (b"features,labels\n1,2\n" * 50, "not a MATLAB file"),
    ],
)
def test_other_files(tmp_path, content, message):
    path = tmp_path / "other.mat"
    path.write_bytes(content)
    with pytest.raises(RawFileError, match=message):
        BenchmarkMatDataset(filepath=str(path)).load()


@pytest.mark.parametrize("kept", [100, 500, 2000])
def test_cut_off_file(tmp_path, kept):
    path = tmp_path / "cut.mat"
    savemat(path, {"features": np.random.default_rng(0).normal(size=(50, 10))}, do_compression=True)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(RawFileError, match="damaged or cut off"):
        BenchmarkMatDataset(filepath=str(path)).load()
