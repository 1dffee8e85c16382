"""Settings of the Kedro project."""

import os
import sys
import warnings
from pathlib import Path

from kedro.utils import find_kedro_project

from conle.cli import LAST_RUN
from conle.preflight import Preflight
from conle.run import SessionStore
from conle.tracking import ExperimentTracking, ModelLogging
from conle.versions import PinnedVersions, RunRecord

SESSION_STORE_CLASS = SessionStore

# Of the hooks that come first, Kedro calls the last first: versions are pinned, then checked, then
# recorded.
HOOKS = (
    LAST_RUN,
    ExperimentTracking(),
    ModelLogging(),
    RunRecord(),
    Preflight(),
    PinnedVersions(),
)


def _project_folder() -> str:
    """The project, for paths that Kedro does not resolve itself, such as MLflow's database."""
    return (find_kedro_project(Path.cwd()) or Path.cwd()).as_posix()


def _package_folder() -> str:
    """The package, for files that come with it."""
    return Path(__file__).parent.as_posix()


# A worker that is spawned has no hooks of the project: kedro-mlflow's would open runs of their own.
if sys.platform == "linux":
    os.environ.setdefault("KEDRO_MP_CONTEXT", "fork")

# Dask logs every connection, in workers of this machine too.
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")

# A server that does not answer has a quarter of a minute, not four.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")

# The results table takes its inputs from the namespaces of all datasets, as it must.
warnings.filterwarnings("ignore", message="One or more dataset names contain '.' characters")

CONFIG_LOADER_ARGS = {
    "base_env": "base",
    "default_run_env": "local",
    "config_patterns": {
        name: [f"{name}*", f"{name}*/**", f"**/{name}*"] for name in ("mlflow", "dask")
    },
    "custom_resolvers": {"project_folder": _project_folder, "package_folder": _package_folder},
}
