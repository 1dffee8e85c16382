"""Settings of the Kedro project."""

import logging
import os
import re
import sys
import warnings
from pathlib import Path
from typing import ClassVar

from kedro.io import DataCatalog
from kedro.utils import find_kedro_project

from conle.cli import LAST_RUN
from conle.preflight import Preflight
from conle.run import SessionStore
from conle.tracking import ExperimentTracking, ModelLogging
from conle.versions import PinnedVersions, RunRecord

SESSION_STORE_CLASS = SessionStore


class SharingCatalog(DataCatalog):
    """Hands on what is in memory without a copy: no node changes its inputs."""

    default_runtime_patterns: ClassVar = {
        "{default}": {"type": "kedro.io.MemoryDataset", "copy_mode": "assign"}
    }


DATA_CATALOG_CLASS = SharingCatalog

# Kedro calls hooks marked `tryfirst` in the reverse of this order: versions are pinned, then
# checked, then recorded.
HOOKS = (
    LAST_RUN,
    ExperimentTracking(),
    ModelLogging(),
    RunRecord(),
    Preflight(),
    PinnedVersions(),
)


def _project_folder() -> str:
    """Folder of the project, for paths that Kedro does not resolve, such as MLflow's database."""
    return (find_kedro_project(Path.cwd()) or Path.cwd()).as_posix()


def _package_folder() -> str:
    """Folder of the package, for files that come with it."""
    return Path(__file__).parent.as_posix()


# A spawned worker lacks the project's hooks, and kedro-mlflow's would open its own runs there.
if sys.platform == "linux":
    os.environ.setdefault("KEDRO_MP_CONTEXT", "fork")

# At Dask's default level, every connection is logged, also in workers of this machine.
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")

# MLflow gives up on a server after a quarter of a minute; by default it tries for four minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")

# A run needs no network and reports to nobody; .telemetry says so for Kedro.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

# Kedro's advice has a logger in common with its progress. That at the start is not needed; that
# after a failure stands before the project's message, and a run is resumed by --resume.
_ADVICE = re.compile("Using synchronous mode|No nodes ran|There are .* nodes that have not run")
for _name in ("sequential_runner", "parallel_runner"):
    logging.getLogger(f"kedro.runner.{_name}").addFilter(
        lambda record: not _ADVICE.match(record.getMessage())
    )

# Kedro warns about inputs from several namespaces, which the results table needs.
warnings.filterwarnings("ignore", message="One or more dataset names contain '.' characters")

CONFIG_LOADER_ARGS = {
    "base_env": "base",
    "default_run_env": "local",
    "config_patterns": {
        name: [f"{name}*", f"{name}*/**", f"**/{name}*"] for name in ("mlflow", "dask")
    },
    "custom_resolvers": {"project_folder": _project_folder, "package_folder": _package_folder},
}
