"""Fixtures that several test modules use."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import fsspec
import numpy as np
import psutil
import pytest
from broken_runs import with_datasets
from scipy.io import loadmat, savemat

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the benchmark's .mat files."""
    folder = os.environ.get("CONLE_DATA")
    if not folder:
        pytest.skip("needs the benchmark's .mat files: set CONLE_DATA to their folder")
    return Path(folder).resolve()


@pytest.fixture(scope="session")
def load_real(real_data):
    """Features and label distributions of a benchmark dataset, as read."""

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


class Project:
    """A copy of the Kedro project in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(
            REPOSITORY / "conf", folder / "conf", ignore=shutil.ignore_patterns("local")
        )
        (folder / "conf" / "local").mkdir()
        shutil.copy(REPOSITORY / "pyproject.toml", folder)
        shutil.copy(REPOSITORY / ".telemetry", folder)
        (folder / "data" / "01_raw").mkdir(parents=True)
        shutil.copytree(REPOSITORY / "notebooks", folder / "notebooks")
        (folder / "src").mkdir()

    def kedro(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run the kedro command in the project."""
        return subprocess.run(
            [sys.executable, "-m", "kedro", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def kedro_each(self, *commands: Sequence[str]) -> list[subprocess.CompletedProcess]:
        """Run kedro commands one after the other in one process: imports take seconds."""
        script = Path(__file__).with_name("run_commands.py")
        done = subprocess.run(
            [sys.executable, str(script)],
            input=json.dumps(commands),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return [
            subprocess.CompletedProcess(command, code, output, errors)
            for command, (code, output, errors) in zip(
                commands, json.loads(done.stdout.splitlines()[-1]), strict=True
            )
        ]

    def run(self, pipeline: str = "conle", **parameters: object) -> subprocess.CompletedProcess:
        """`kedro run` with a short training unless told otherwise."""
        short = {"conle.steps": 20, "repeats": 1, "folds": 3}
        given = ",".join(f"{name}={value}" for name, value in (short | parameters).items())
        return self.kedro("run", "--pipelines", pipeline, "--params", given)

    def write_raw(self, name: str, features: np.ndarray, labels: np.ndarray, **more) -> Path:
        """Put a dataset into the raw folder."""
        path = self.folder / "data" / "01_raw" / f"{name}.mat"
        savemat(path, {"features": features, "labels": labels, **more})
        return path

    def newest(self, artifact: str) -> Path:
        """The file of the last version of an artifact under data/."""
        return max((self.folder / "data" / artifact).glob("*/*"))


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="session")
def make_project(tmp_path_factory) -> Callable[[str], Project]:
    """For fixtures that share a project."""
    return lambda name: Project(tmp_path_factory.mktemp(name))


@pytest.fixture(scope="session")
def artificial_run(make_project) -> tuple[Project, subprocess.CompletedProcess]:
    """A project after a short run on Artificial; tests must not change it."""
    project = make_project("artificial")
    return project, project.run()


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
    """What tells MLflow where runs of this process are tracked, until the test has ended."""
    import mlflow

    yield mlflow.set_tracking_uri
    mlflow.set_tracking_uri(None)


@pytest.fixture(scope="session")
def object_store() -> Iterator[dict[str, str]]:
    """The environment in which a server of moto is Amazon's S3, with a bucket named bucket."""
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
        until = time.monotonic() + 60
        while not psutil.Process(server.pid).net_connections():
            assert time.monotonic() < until
            time.sleep(0.1)
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
