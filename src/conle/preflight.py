"""Hook: checks what a run needs before any work, and prepares the tracking database."""

import logging
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from kedro.config import MissingConfigException, OmegaConfigLoader
from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.framework.project import pipelines
from kedro.io import AbstractVersionedDataset, CatalogProtocol
from kedro.io.core import is_parameter
from kedro.pipeline import Node, Pipeline
from kedro.pipeline.pipeline import OutputNotUniqueError
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from conle import kedro_internals
from conle.errors import ParameterError, RawFileError
from conle.messages import existing_runs, missing_input, missing_raw_files, short_uri
from conle.methods.registry import METHODS, suggestion
from conle.options import (
    ClusterOptions,
    RunOptions,
    run_options,
    set_cluster_options,
    set_run_parameters,
)
from conle.run import LAYER, OUTCOME, RECORDED, RUN, has_cell, recorded_runs, runs_table
from conle.versions import parameters_and_artifacts

if TYPE_CHECKING:
    from conle.cells import Cell

logger = logging.getLogger(__name__)

# Catalog entries that come with the project.
PUBLISHED_FILES = (
    "published_sizes",
    "published_recovery",
    "published_ranks",
    "published_ablation",
    "known_datasets",
)
SECONDS_FOR_AN_ANSWER = 10
# Parameters that only the catalog reads.
COLUMNS = ("labels", "labels_prefix", "labels_last", "labels_xml", "index")
# The catalog reads these, and `raw_dir`, from the command line alone.
OF_THE_COMMAND_LINE = ("input", *COLUMNS, "model")
# Options of `kedro run` that choose nodes, and the arguments of `Pipeline.filter` that they set.
SELECTION = {
    "tags": "tags",
    "node_names": "node_names",
    "from_nodes": "from_nodes",
    "to_nodes": "to_nodes",
    "from_inputs": "from_inputs",
    "to_outputs": "to_outputs",
    "namespaces": "node_namespaces",
}
PACKAGE = __name__.split(".")[0]


class Preflight:
    """Refuses a run that cannot succeed, with one message."""

    # The address in `mlflow.yml` that an earlier session of this process has tracked its run at.
    _configured_uri: str | None = None

    @hook_impl(tryfirst=True)
    def after_context_created(self, context: KedroContext) -> None:
        """Check the options and keep them for the registration of the pipelines.

        Raises:
            ParameterError: the configuration, an option or the selection of nodes is wrong.
        """
        # context.params would load the pipelines, which need the parameters first.
        loader = context.config_loader
        try:
            # The loader keeps these values, because Kedro and the hooks read them many times.
            for name in ("globals", "parameters", "catalog", "mlflow", "dask"):
                loader[name] = loader[name]
        except (MissingConfigException, OmegaConfBaseException, YAMLError, ValueError) as error:
            raise ParameterError(f"the configuration cannot be read: {error}") from None
        parameters = loader["parameters"]
        refuse_unknown(loader, parameters)
        refuse_unread(loader, parameters)
        self._take_environment(loader["mlflow"])
        prepare_tracking(loader["mlflow"], Path(context.project_path))
        RunOptions.from_parameters(parameters)
        set_cluster_options(ClusterOptions.from_configuration(loader["dask"]))
        set_run_parameters(parameters, Path(context.project_path))
        # Kedro keeps the pipelines of an earlier session in this process, with other datasets.
        pipelines.configure(f"{PACKAGE}.pipeline_registry")
        refuse_selection()
        self._parameters, self._artifacts = parameters_and_artifacts(context)

    @hook_impl(tryfirst=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Check the runner, hyperparameters and inputs of the nodes that will run.

        Raises:
            ParameterError: the runner, a hyperparameter or an artifact of an earlier run is not
                usable.
            RawFileError: a file is missing.
        """
        from conle.data.atomic import PARTIAL, remove_partial

        if "ThreadRunner" in run_params["runner"]:
            # Its nodes share one process, and a process has one limit of threads for all of them.
            raise ParameterError(
                "methods cannot share a process: take --runner=ParallelRunner or "
                "--runner=conle.dask_runner.DaskRunner"
            )
        refuse_taken(pipeline, catalog, self._artifacts)
        self._refuse_repeats(pipeline)
        cells = [
            cell
            for node in pipeline.nodes
            if has_cell(node)
            for cell in (node.func.keywords.get("candidates") or [node.func.cell])
        ]
        for cell in cells:
            cell.make_enhancer()
        warn_without_effect(cells, run_params["runtime_params"])
        project = Path(run_params["project_path"])
        self._refuse_missing(pipeline, catalog, project)
        folders = {project / "data"}
        # An object store shows only complete objects.
        if "://" not in self._artifacts:
            folders.add(Path(self._artifacts))
        found = [path for folder in folders for path in folder.rglob(PARTIAL)]
        remove_partial([*found, *project.glob(PARTIAL)])
        use_threads(self._parameters["threads"])

    def _take_environment(self, configured: dict[str, Any]) -> None:
        """Let MLflow's variables of the environment go before `mlflow.yml`."""
        server, uri = configured["server"], os.environ.get("MLFLOW_TRACKING_URI")
        # MLflow itself writes the address of every session into the variable.
        if uri and uri != self._configured_uri:
            server["mlflow_tracking_uri"] = uri
        else:
            self._configured_uri = server["mlflow_tracking_uri"]
        if name := os.environ.get("MLFLOW_EXPERIMENT_NAME"):
            configured.setdefault("tracking", {}).setdefault("experiment", {})["name"] = name

    def _refuse_repeats(self, pipeline: Pipeline) -> None:
        repeats = self._parameters["repeats"]
        for name in ("convergence", "predictive"):
            own = self._parameters[name]["repeats"]
            if f"params:{name}.repeats" in pipeline.inputs() and own > repeats:
                raise ParameterError(
                    f"These parameters cannot be used:\n  {name}.repeats ({own}) must not exceed "
                    f"repeats ({repeats})"
                )

    def _refuse_missing(self, pipeline: Pipeline, catalog: CatalogProtocol, project: Path) -> None:
        from conle.data.optional import Optional

        required = {
            name
            for name in pipeline.inputs()
            if not is_parameter(name) and not isinstance(catalog.get(name), Optional)
        }
        required |= {name for node in pipeline.nodes for name in read_by_hooks(node)}
        missing = [
            name for name in sorted(required - pipeline.all_outputs()) if not catalog.exists(name)
        ]
        raw = [name.removesuffix(".raw") for name in missing if name.endswith(".raw")]
        if raw:
            folder = self._parameters["raw_dir"]
            if "://" not in folder:
                folder = (project / folder).as_posix()
            raise RawFileError(missing_raw_files(raw, folder))
        if "enhance.input" in missing:
            raise RawFileError(missing_input(self._parameters["input"]))
        if "enhance.fitted_model" in missing:
            raise RawFileError(
                f"{self._parameters['model']} is missing: --params model=FOLDER names a fitted "
                "model"
            )
        published = [name for name in missing if name in PUBLISHED_FILES]
        if published:
            raise RawFileError(
                f"Files of the project itself are missing: {', '.join(published)} (see "
                "conf/base/catalog.yml); git restores them"
            )
        if missing:
            raise ParameterError(
                "This run reads artifacts that no run has left in the catalog yet:\n"
                + "\n".join(f"  {name}" for name in missing)
                + "\nkedro run makes them all; --pipeline=conle and --pipeline=baselines make "
                "those of their methods."
                + existing_runs(runs_table(recorded_runs(self._artifacts)))
            )


def refuse_selection() -> None:
    """Refuse a pipeline, node, tag or artifact of the command line that does not exist.

    Raises:
        ParameterError: names it, and the nearest name.
    """
    command = click.get_current_context(silent=True)
    given = {} if command is None else command.params
    if not SELECTION.keys() <= given.keys():
        return
    names = [given["pipeline"]] if given.get("pipeline") else given.get("pipelines")
    names = names or ["__default__"]
    for name in names:
        if name not in pipelines:
            raise ParameterError(f"there is no pipeline {name!r}{suggestion(name, pipelines)}")
    try:
        selected = sum((pipelines[name] for name in names), Pipeline([]))
    except (ValueError, OutputNotUniqueError):
        raise ParameterError(
            f"{' and '.join(names)} make the same artifacts by different nodes: run them one after "
            "the other"
        ) from None
    try:
        selected = selected.filter(**{SELECTION[option]: given[option] for option in SELECTION})
    except ValueError as error:
        raise ParameterError(str(error)) from None
    read = {name for name in selected.inputs() if not is_parameter(name)}
    if RECORDED in read:
        # The report imports Matplotlib.
        from conle.reporting.exhibits import recorded_entries

        read |= recorded_entries(run_options().datasets) - selected.all_outputs()
    for name in given["load_versions"] or {}:
        if name not in read:
            raise ParameterError(
                f"--load-versions: this run reads no {name!r}{suggestion(name, sorted(read))}"
            )


def refuse_unread(loader: OmegaConfigLoader, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters that are set in a file, but read from the command line alone.

    Raises:
        ParameterError: names the parameter and its place.
    """
    given = loader.runtime_params or {}
    raw_dir = given.get("raw_dir", loader["globals"]["raw_dir"])
    read = {"raw_dir": raw_dir, **{name: given.get(name) for name in OF_THE_COMMAND_LINE}}
    if parameters["resume"]:
        raise ParameterError(
            "resume is set in a file or by a session, where it is not read: give it by --resume"
        )
    for name, value in read.items():
        if parameters[name] != value:
            raise ParameterError(
                f"{name} is set in a file of parameters, where it is not read: give it by "
                f'--params "{name}=..."'
                + (", or in conf/local/globals.yml" if name == "raw_dir" else "")
            )


def warn_without_effect(cells: Sequence["Cell"], given: Mapping[str, Any]) -> None:
    """Warn of a hyperparameter on the command line that every method of the run sets itself.

    Args:
        cells: the cells of the run.
        given: the parameters on the command line.
    """
    for name, block in given.items():
        own = [cell for cell in cells if cell.block_name == name]
        for key, value in block.items() if own else ():
            if all(cell.block[key] != value for cell in own):
                taken = dict.fromkeys(f"{cell.method} sets {key}={cell.block[key]}" for cell in own)
                logger.warning(
                    "%s.%s=%s has no effect in this run: %s", name, key, value, ", ".join(taken)
                )


def refuse_unknown(loader: OmegaConfigLoader, parameters: Mapping[str, Any]) -> None:
    """Refuse a misspelt parameter, which would change nothing.

    A user's own nodes may have parameters in the configuration, unless a name is close to one of
    the project's.

    Raises:
        ParameterError: names the parameter, and the nearest name.
    """
    configured = parameters
    if loader.runtime_params:
        configured = OmegaConfigLoader(
            conf_source=loader.conf_source,
            env=loader.env,
            base_env=loader.base_env,
            default_run_env=loader.default_run_env,
        )["parameters"]
    own = {
        *RunOptions.model_fields,
        *COLUMNS,
        *(method.parameters for method in METHODS.values()),
    }
    for name in parameters:
        if name not in configured and name in METHODS:
            method = METHODS[name]
            raise ParameterError(
                f"{name} has no block of its own: it sets {' and '.join(method.fixed)} itself, and "
                f"takes its other hyperparameters from the block {method.parameters}"
            )
        if name not in configured:
            raise ParameterError(f"there is no parameter {name!r}{suggestion(name, configured)}")
        if name not in own and get_close_matches(name, own, n=1, cutoff=0.8):
            raise ParameterError(f"there is no parameter {name!r}{suggestion(name, own)}")


def refuse_taken(pipeline: Pipeline, catalog: CatalogProtocol, artifacts: str) -> None:
    """Refuse a file where an artifact needs a folder, and a folder where it is a file.

    Raises:
        ParameterError: names the files and folders.
    """
    folders, taken = {Path(artifacts, LAYER, name) for name in (RUN, OUTCOME)}, set()
    outputs = pipeline.all_outputs()
    for name in pipeline.datasets():
        dataset = catalog.get(name)
        local = kedro_internals.file_system(dataset)[0] == "file"
        if not (local and isinstance(dataset, AbstractVersionedDataset)):
            continue
        place = Path(kedro_internals.save_path(dataset))
        if kedro_internals.is_versioned(dataset):
            folders.add(place.parent)
        elif name in outputs and place.is_dir():
            taken.add(place)
    taken |= {own for folder in folders for own in (folder, *folder.parents) if own.is_file()}
    if taken:
        raise ParameterError(
            "These names are those of artifacts, but a file is where a folder is needed, or a "
            "folder where a file is (an older project may have left it):\n"
            + "\n".join(f"  {place}" for place in sorted(taken))
            + "\nMove them away and run the command again."
        )


def prepare_tracking(configured: Mapping[str, Any], project: Path) -> None:
    """Check that runs can be tracked as `mlflow.yml` says; create the tracking database.

    Raises:
        ParameterError: the server does not answer, MLflow cannot use the database, or it has no
            run of the id in MLFLOW_RUN_ID.
    """
    uri = configured["server"]["mlflow_tracking_uri"]
    if uri is None:
        return
    address = short_uri(uri, project)
    if uri.startswith(("http://", "https://")):
        import requests

        try:
            # MLflow itself tries for minutes before it gives up.
            requests.get(uri, timeout=SECONDS_FOR_AN_ANSWER)
        except requests.RequestException as error:
            raise ParameterError(
                f"MLflow at {address} does not answer ({type(error).__name__}): start it "
                "(docs/mlflow.md), or name another in conf/local/mlflow.yml"
            ) from None
    elif uri.startswith("sqlite:///"):
        prepare_database(Path(uri.removeprefix("sqlite:///").partition("?")[0]))
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
    except (ImportError, MlflowException, SQLAlchemyError) as error:
        reason = str(error)
        if "database schema" in reason:
            reason = (
                f"its schema is not that of MLflow {version('mlflow')}. Take a copy; then "
                f"mlflow db upgrade {address} mends an older schema. A newer one needs the MLflow "
                "that made it"
            )
        raise ParameterError(f"MLflow cannot use {address}: {reason}") from None
    experiment = configured.setdefault("tracking", {}).setdefault("experiment", {})
    run_id = os.environ.get("MLFLOW_RUN_ID")
    if not run_id:
        # kedro-mlflow creates an experiment that has other options.
        if experiment.keys() == {"name"}:
            create_experiment(client, experiment["name"])
        return
    try:
        run = client.get_run(run_id).info
        if run.lifecycle_stage == "deleted":
            raise MlflowException("it is deleted")
    except MlflowException as error:
        raise ParameterError(
            f"MLFLOW_RUN_ID is {run_id}, but MLflow at {address} cannot go on with this run "
            f"({error}): unset it to begin a new run"
        ) from None
    # MLflow goes on with a run in the experiment of this run only.
    experiment["name"] = client.get_experiment(run.experiment_id).name


def create_experiment(client: Any, name: str) -> None:
    """Create an experiment if there is none; another run may create it at the same moment."""
    from mlflow.exceptions import MlflowException

    try:
        if client.get_experiment_by_name(name) is None:
            client.create_experiment(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def prepare_database(path: Path) -> None:
    """Create the tracking database atomically, or refuse a file that is none.

    Raises:
        ParameterError: the file cannot be read as a database of MLflow.
    """
    if path.exists():
        try:
            # MLflow tries for minutes to open other files, and adds its tables to other databases.
            # A killed run may have left a change that is undone now, so this may write.
            address = f"{path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(address, timeout=60, uri=True)) as database:
                database.execute("SELECT 1 FROM experiments")
        except sqlite3.Error as error:
            raise ParameterError(
                f"{path} cannot be read as a database of MLflow ({error}): if it is another file, "
                "move it away, and the next run makes a database"
            ) from None
        return
    from filelock import FileLock
    from mlflow import MlflowClient
    from sqlalchemy import Engine, event

    from conle.data.atomic import partial_name

    path.parent.mkdir(parents=True, exist_ok=True)
    # MLflow creates its tables one by one: two runs at once would both create them, and a killed
    # run would leave only some of them.
    with FileLock(f"{path}.lock"):
        if not path.exists():
            partial = Path(partial_name(path))
            event.listen(Engine, "connect", write_without_waiting)
            try:
                MlflowClient(f"sqlite:///{partial.as_posix()}").search_experiments()
            finally:
                event.remove(Engine, "connect", write_without_waiting)
            with partial.open("rb+") as file:
                os.fsync(file.fileno())
            partial.replace(path)


def write_without_waiting(connection: sqlite3.Connection, *_: Any) -> None:
    """Let a connection not wait for the disk after each change: MLflow makes hundreds."""
    connection.execute("PRAGMA synchronous = OFF")


def use_threads(number: int | None) -> None:
    """Set the threads of NumPy, SciPy, scikit-learn and PyTorch; None leaves the number to them.

    The last bits of sums depend on the number of threads.
    """
    if number is None:
        return
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(number)
    threadpool_limits(number)


def read_by_hooks(node: Node) -> set[str]:
    """Artifacts that hooks read when a node runs, in addition to its inputs."""
    return {f"{node.func.cell.dataset}.source"} if "recovery" in node.tags else set()
