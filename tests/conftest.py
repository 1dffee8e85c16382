"""Fixtures that several test modules use."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Test workers share the cores: their threads would wait for each other. NumPy reads these variables
# when it is imported.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import fsspec
import numpy as np
import psutil
import pytest
import torch
from broken_runs import wait_until, with_datasets
from commands import CommandServer
from filelock import FileLock
from projects import Project, write_toy
from scipy.io import loadmat


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the benchmark's .mat files."""
    folder = os.environ.get("CONLE_DATA")
    if not folder:
        pytest.skip("needs the benchmark's .mat files: set CONLE_DATA to their folder")
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def public_data(real_data) -> Path:
    """The folder of the public .mat files, beside that of the benchmark's."""
    folder = real_data.parent / "data_public"
    if not folder.is_dir():
        pytest.skip("needs public .mat files: put them into data_public beside CONLE_DATA")
    return folder


@pytest.fixture(scope="session")
def load_real(real_data):
    """Loads features and label distributions of a benchmark dataset, as the file holds them."""

    def load(name: str) -> tuple[np.ndarray, np.ndarray]:
        variables = loadmat(real_data / f"{name}.mat")
        return variables["features"], variables["labels"]

    return load


@pytest.fixture
def samples() -> tuple[np.ndarray, np.ndarray]:
    """Features and logical labels of 60 samples; every label is relevant somewhere."""
    generator = np.random.default_rng(7)
    features = generator.normal(size=(60, 5))
    scores = features @ generator.normal(size=(5, 4)) + 0.3 * generator.normal(size=(60, 4))
    logical_labels = (scores >= np.sort(scores, axis=1)[:, -2:-1]).astype(float)
    logical_labels[::3] = scores[::3] >= scores[::3].max(axis=1, keepdims=True)
    return features, logical_labels


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Two threads of PyTorch."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def commands() -> Iterator[CommandServer]:
    """Starts kedro and dask commands; each test worker has one."""
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def new_project(tmp_path_factory, commands, tracking_database) -> Callable[[], Project]:
    """Makes projects, for tests that need several."""

    def make():
        project = Project(tmp_path_factory.mktemp("project"), commands)
        project.lay_out()
        shutil.copy(tracking_database, project.folder / "mlflow.db")
        return project

    return make


@pytest.fixture
def project(new_project) -> Project:
    return new_project()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory, worker_id) -> Path:
    """A folder that all test workers share."""
    root = tmp_path_factory.getbasetemp()
    return root if worker_id == "master" else root.parent


@pytest.fixture(scope="session")
def tracking_database(shared_folder) -> Path:
    """MLflow's database without a run. Projects copy it: making its tables takes a second."""
    import mlflow

    path = shared_folder / "mlflow.db"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            mlflow.MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(scope="session")
def shared_project(
    shared_folder, commands
) -> Callable[..., tuple[Project, subprocess.CompletedProcess]]:
    """Makes a project that all test workers share; tests must not change what it holds.

    The first worker that asks for a project fills it with `fill`, which returns the finished
    command; the other workers wait and get the same.
    """

    def share(name: str, fill: Callable[[Project], subprocess.CompletedProcess]):
        project = Project(shared_folder / f"shared_{name}", commands)
        done = project.folder.with_suffix(".json")
        with FileLock(f"{project.folder}.lock"):
            if not done.exists():
                project.lay_out()
                done.write_text(json.dumps(vars(fill(project))))
        return project, subprocess.CompletedProcess(**json.loads(done.read_text()))

    return share


@pytest.fixture(scope="session")
def artificial_run(shared_project) -> tuple[Project, subprocess.CompletedProcess]:
    """A project after a short run on Artificial."""
    return shared_project("artificial", lambda project: project.run())


@pytest.fixture
def toy(project):
    return write_toy(project)


@pytest.fixture
def several(project, toy_datasets):
    """A project with two datasets."""
    return with_datasets(project, toy_datasets)


@pytest.fixture(scope="session")
def toy_datasets():
    generator = np.random.default_rng(5)
    return {
        name: (generator.normal(size=(60, 3)), generator.dirichlet(np.ones(4), 60))
        for name in ("One", "Two")
    }


@pytest.fixture
def tracked_at() -> Iterator[Callable[[str], None]]:
    """Sets the address at which MLflow tracks runs of this process, until the test has ended."""
    import mlflow

    yield mlflow.set_tracking_uri
    # Commands that later tests start inherit both.
    mlflow.set_tracking_uri(None)
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)


@pytest.fixture(scope="session")
def object_store() -> Iterator[dict[str, str]]:
    """Environment variables that direct S3 clients to a moto server with a bucket named bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(psutil.Process(server.pid).net_connections)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            fsspec.filesystem("s3").mkdir("bucket")
        yield environment
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(object_store, monkeypatch) -> str:
    """A bucket that this process can use."""
    for name, value in object_store.items():
        monkeypatch.setenv(name, value)
    return "s3://bucket"
