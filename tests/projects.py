"""Kedro projects in folders of their own."""

import shutil
import subprocess
from pathlib import Path

import mlflow
import numpy as np
from commands import REPOSITORY, Command, CommandServer
from scipy.io import savemat


class Project:
    """A copy of the Kedro project in a folder of its own."""

    def __init__(self, folder: Path, commands: CommandServer) -> None:
        self.folder, self.commands = folder, commands

    def lay_out(self) -> None:
        """Write the files of the repository that a command needs."""
        for name in ("conf", "notebooks"):
            shutil.copytree(
                REPOSITORY / name, self.folder / name, ignore=shutil.ignore_patterns("local")
            )
        for name in ("pyproject.toml", ".telemetry"):
            shutil.copy(REPOSITORY / name, self.folder)
        for name in ("conf/local", "data/01_raw", "src"):
            (self.folder / name).mkdir(parents=True)

    def start(self, *arguments: str, **environment: str) -> Command:
        """Start the kedro command in the project."""
        return self.commands.start("kedro", *arguments, folder=self.folder, **environment)

    def kedro(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        """Run the kedro command in the project."""
        return self.commands.run("kedro", *arguments, folder=self.folder, **environment)

    def run(self, pipeline: str = "conle", **parameters: object) -> subprocess.CompletedProcess:
        """Run a pipeline, with a short training by default."""
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

    def report_table(self, name: str) -> Path:
        """A table of the last report."""
        return self.newest("08_reporting/report/tables") / f"{name}.csv"


def tracked(project):
    """All MLflow runs of a project, one row each."""
    client = mlflow.MlflowClient(f"sqlite:///{project.folder}/mlflow.db")
    experiment = client.get_experiment_by_name("conle")
    return client, client.search_runs([experiment.experiment_id])


def write_toy(project):
    """A small dataset of three labels."""
    generator = np.random.default_rng(1)
    project.write_raw(
        "Toy", generator.normal(size=(60, 5)), generator.dirichlet(np.ones(3), size=60)
    )
    return project
