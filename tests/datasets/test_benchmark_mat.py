import numpy as np
import pytest
from scipy.io import savemat

from conle.datasets.benchmark_mat import BenchmarkMatDataset
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
    monkeypatch.setattr("fsspec.implementations.local.LocalFileOpener.commit", fail)
    with pytest.raises(Exception, match="no space left"):
        dataset.save({"features": np.zeros((100, 100))})
    assert (tmp_path / "made.mat").read_bytes() == before


def test_missing_file(tmp_path):
    with pytest.raises(RawFileError, match=r"nothing\.mat is missing"):
        BenchmarkMatDataset(filepath=str(tmp_path / "nothing.mat")).load()


def test_matlab_7_3_file(tmp_path):
    """HDF5 behind a block of 512 bytes, which begins as a v5 file does."""
    path = tmp_path / "new.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(RawFileError, match=r"MATLAB v7\.3 .*'-v7'"):
        BenchmarkMatDataset(filepath=str(path)).load()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"", "not a MATLAB v5 file"),
        (b"features,labels\n1,2\n" * 50, "not a MATLAB v5 file"),
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
