"""The provenance of results: the project's commit and the versions of packages."""

import platform
import subprocess
from importlib.metadata import version
from typing import Any

from conle.data.read_only import ReadOnlyDataset

PACKAGES = ("conle", "kedro", "mlflow", "torch", "numpy", "scipy", "pandas", "scikit-learn")


class ProvenanceDataset(ReadOnlyDataset):
    """Commit, Python, platform and package versions, by name; read-only.

    Args:
        project_path: folder of the project.
        metadata: Kedro-Viz reads it.
    """

    def __init__(self, *, project_path: str, metadata: dict[str, Any] | None = None) -> None:
        self._project_path = project_path
        self.metadata = metadata

    def load(self) -> dict[str, str]:
        """Collect the names and values."""
        return {
            "git commit": git_commit(self._project_path),
            "Python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
            **{package: version(package) for package in PACKAGES},
        }

    def _describe(self) -> dict[str, Any]:
        return {"project_path": self._project_path}


def git_commit(project_path: str) -> str:
    """The commit of the project; it ends in -dirty if files differ from it."""
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
