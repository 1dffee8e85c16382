"""Settings of the Kedro project."""

import atexit
import gc
import os
import sys
import warnings
from pathlib import Path

from kedro.utils import find_kedro_project

from conle.hooks import (
    ExperimentTracking,
    ModelLogging,
    PlainErrors,
    RunParameters,
    RunReport,
    SharedFolder,
)
from conle.session import SessionOfItsOwn

SESSION_STORE_CLASS = SessionOfItsOwn

HOOKS = (
    RunParameters(),
    SharedFolder(),
    ExperimentTracking(),
    ModelLogging(),
    RunReport(),
    PlainErrors(),
)


def _project_folder() -> str:
    """For paths that Kedro does not resolve itself, such as MLflow's database."""
    return (find_kedro_project(Path.cwd()) or Path.cwd()).as_posix()


def _package_folder() -> str:
    """For files that come with the package."""
    return Path(__file__).parent.as_posix()


# torch, MLflow and scikit-learn make very many objects that live as long as the run. Searching them
# for garbage again and again, and once more at the end, takes a third of a short run's time.
gc.set_threshold(100_000, 20, 20)
atexit.register(gc.freeze)

# A worker that is spawned has no hooks of the project: kedro-mlflow's would open runs of their own.
if sys.platform == "linux":
    os.environ.setdefault("KEDRO_MP_CONTEXT", "fork")

# Dask speaks of every connection, in workers of this machine too.
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")

# A server that does not answer is given a quarter of a minute, not four.
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
