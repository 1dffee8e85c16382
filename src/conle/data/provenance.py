"""What a run is made with: the commit of the project and the versions of what it uses."""

import platform
import subprocess
from importlib.metadata import version
from typing import Any, NoReturn

from kedro.io import AbstractDataset, DatasetError

PACKAGES = ("conle", "kedro", "mlflow", "torch", "numpy", "scipy", "pandas", "scikit-learn")


class EnvironmentDataset(AbstractDataset):
    """The environment as a dict of texts; it cannot be saved.

    Args:
        project_path: folder of the project.
        metadata: for Kedro-Viz.
    """

    def __init__(self, *, project_path: str, metadata: dict[str, Any] | None = None) -> None:
        self._project_path = project_path
        self.metadata = metadata

    def load(self) -> dict[str, str]:
        """Commit, Python, platform and packages."""
        return {
            "git commit": git_commit(self._project_path),
            "Python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
            **{package: version(package) for package in PACKAGES},
        }

    def save(self, data: Any) -> NoReturn:
        """Not possible.

        Raises:
            DatasetError: always.
        """
        raise DatasetError("the environment cannot be saved")

    def _exists(self) -> bool:
        return True

    def _describe(self) -> dict[str, Any]:
        return {"project_path": self._project_path}


def git_commit(project_path: str) -> str:
    """The commit of the project, marked where files differ from it."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
            cwd=project_path,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return "not in git"
    return described.stdout.strip() if described.returncode == 0 else "not in git"
