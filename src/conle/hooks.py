"""Hooks: the run's parameters for the registration of pipelines, MLflow, and the final report."""

import atexit
import errno
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pandas as pd
from kedro.config import MissingConfigException, OmegaConfigLoader
from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.framework.project import pipelines
from kedro.io import AbstractVersionedDataset, CatalogProtocol
from kedro.io.core import Version, is_parameter
from kedro.pipeline import Node, Pipeline
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from conle.data.atomic import PARTIAL, partial_name, remove_left_over
from conle.data.optional import IfThere
from conle.data.provenance import git_commit
from conle.errors import FailedCellsError, ParameterError, RawFileError
from conle.methods.registry import METHODS, RUN_SETTINGS, make_enhancer, suggestion
from conle.options import (
    PAPER_DATASETS,
    ClusterOptions,
    RunOptions,
    set_cluster_options,
    set_run_parameters,
)
from conle.process_identity import is_alive, this_process
from conle.reporting.console import checks_table, summary_table

logger = logging.getLogger(__name__)

# Catalog entries that come with the project.
PUBLISHED_FILES = (
    "published_sizes",
    "published_recovery",
    "published_ranks",
    "published_ablation",
    "known_files",
)
SECONDS_FOR_AN_ANSWER = 10
# Parameters that only the catalog reads.
LABEL_COLUMNS = ("labels", "labels_prefix", "labels_last", "labels_xml")
# What `--pipeline=enhance` makes, for its last words.
ENHANCED = (
    ("Parquet", "enhance.distributions"),
    ("CSV", "enhance.distributions_csv"),
    ("Checks", "enhance.checks"),
    ("Model", "enhance.model"),
)
# Options of `kedro run` that choose nodes, and what Kedro's pipelines call them.
SELECTION = {
    "tags": "tags",
    "node_names": "node_names",
    "from_nodes": "from_nodes",
    "to_nodes": "to_nodes",
    "from_inputs": "from_inputs",
    "to_outputs": "to_outputs",
    "namespaces": "node_namespaces",
}
DISK_ERRORS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
)
# Beside `raw_dir`, what the catalog takes from --params alone.
OF_THE_COMMAND_LINE = ("input", *LABEL_COLUMNS, "model")
GO_ON = "What is finished is kept: the same command with --params resume=true goes on from there."
PACKAGE = __name__.split(".")[0]


class RunParameters:
    """Checks the parameters, the tracking and the raw files before any work."""

    @hook_impl(tryfirst=True)
    def after_context_created(self, context: KedroContext) -> None:
        """Check the run's options and keep them for the registration of the pipelines."""
        # Not context.params: that loads the pipelines, which need this first.
        try:
            parameters, _, cluster = (
                context.config_loader[name] for name in ("parameters", "catalog", "dask")
            )
        except (MissingConfigException, OmegaConfBaseException, YAMLError, ValueError) as error:
            raise ParameterError(f"the configuration cannot be read: {error}") from None
        self._refuse_unknown(context, parameters)
        self._refuse_unread(context, parameters)
        self._prepare_tracking(context.config_loader["mlflow"]["server"]["mlflow_tracking_uri"])
        RunOptions.from_parameters(parameters)
        set_cluster_options(ClusterOptions.from_configuration(cluster))
        set_run_parameters(parameters, Path(context.project_path))
        # Kedro keeps the pipelines of an earlier session in this process, with other datasets.
        pipelines.configure(f"{PACKAGE}.pipeline_registry")
        self._refuse_selection()
        self._raw_dir = parameters["raw_dir"]

    @staticmethod
    def _prepare_tracking(uri: str | None) -> None:
        """See that a server answers; make a database whole, and only once."""
        if uri is not None and uri.startswith(("http://", "https://")):
            import requests

            try:
                # MLflow itself asks for minutes before it gives up.
                requests.get(uri, timeout=SECONDS_FOR_AN_ANSWER)
            except requests.RequestException as error:
                raise ParameterError(
                    f"MLflow at {without_password(uri)} does not answer ({type(error).__name__}): "
                    "start it (docs/mlflow.md), or name another in conf/local/mlflow.yml"
                ) from None
        if uri is None or not uri.startswith("sqlite:///"):
            return
        path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        if path.exists():
            return
        from filelock import FileLock
        from mlflow import MlflowClient

        # MLflow makes its tables one by one: two runs would do so at once, a killed one half.
        with FileLock(f"{path}.lock"):
            if not path.exists():
                partial = Path(partial_name(path))
                MlflowClient(f"sqlite:///{partial.as_posix()}").search_experiments()
                partial.replace(path)

    @staticmethod
    def _refuse_selection() -> None:
        """On the command line, a pipeline, node or tag that is not there is a user's mistake."""
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
        except ValueError:
            raise ParameterError(
                f"{' and '.join(names)} have nodes of the same names for other methods: run them "
                "one after the other"
            ) from None
        try:
            selected.filter(**{SELECTION[option]: given[option] for option in SELECTION})
        except ValueError as error:
            raise ParameterError(str(error)) from None

    @hook_impl(tryfirst=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Check the runner, hyperparameters and raw files of the nodes that will run."""
        # Its nodes would share one process, in which the number of threads is one for all.
        if "ThreadRunner" in run_params["runner"]:
            raise ParameterError(
                "methods cannot share a process: take --runner=ParallelRunner or "
                "--runner=conle.runner.DaskRunner"
            )
        repeats = catalog.load("params:repeats")
        for name in ("convergence.repeats", "predictive.repeats"):
            if f"params:{name}" in pipeline.inputs() and catalog.load(f"params:{name}") > repeats:
                raise ParameterError(
                    f"These parameters cannot be used:\n  {name} "
                    f"({catalog.load(f'params:{name}')}) must not exceed repeats ({repeats})"
                )
        for node in pipeline.nodes:
            bound = getattr(node.func, "keywords", {})
            if "method" not in node.tags:
                continue
            # That of the convergence is bound to ConLE by its block alone.
            method = bound.get("method") or next(
                (name for name in METHODS if f"params:{METHODS[name].parameters}" in node.inputs),
                None,
            )
            if method is None:
                continue
            overrides = bound.get("overrides") or {}
            block = catalog.load(f"params:{METHODS[method].parameters}")
            settings = {name: catalog.load(f"params:{name}") for name in RUN_SETTINGS}
            floors = catalog.load("params:degree_floors")
            settings["degree_floor"] = floors.get(bound.get("dataset"), 0.0)
            try:
                make_enhancer(method, block, **settings)
                make_enhancer(method, {**block, **overrides}, **settings)
            except ValueError as error:
                raise ParameterError(f"{method}: {error}") from None
        required = {
            name
            for name in pipeline.inputs()
            if not is_parameter(name) and not isinstance(catalog.get(name), IfThere)
        }
        # The source of a dataset is no input of a node: it is read to tag its MLflow runs.
        required |= {name for node in pipeline.nodes for name in read_by_hooks(node)}
        missing = [
            name for name in sorted(required - pipeline.all_outputs()) if not catalog.exists(name)
        ]
        raw = [name.removesuffix(".raw") for name in missing if name.endswith(".raw")]
        if raw:
            raise RawFileError(self._missing_message(raw))
        if "enhance.input" in missing:
            raise RawFileError(self._input_message(catalog))
        if "enhance.fitted_model" in missing:
            folder = catalog.load("params:model")
            raise RawFileError(f"{folder} is missing: --params model=FOLDER names a fitted model")
        published = [name for name in missing if name in PUBLISHED_FILES]
        if published:
            raise RawFileError(
                f"Files of the project itself are missing: {', '.join(published)} (see "
                "conf/base/catalog.yml); git restores them"
            )
        if missing:
            raise ParameterError(
                "These artifacts are read, and no run has left them in the catalog yet:\n"
                + "\n".join(f"  {name}" for name in missing)
                + "\nkedro run makes them all; --pipeline=conle and --pipeline=baselines those of "
                "their methods."
            )

    def _missing_message(self, missing: list[str]) -> str:
        files = "\n".join(f"  {self._raw_dir}/{name}.mat" for name in missing)
        known = (*PAPER_DATASETS, "Artificial")
        misspelt = "".join(
            f"\n{name} is no dataset of the paper{suggestion(name, known)}"
            for name in missing
            if name not in known
        )
        return (
            f"These raw files are missing:\n{files}{misspelt}\n"
            "The benchmark's datasets were collected by X. Geng and are distributed by the PALM "
            "group, Southeast University, for academic use: kedro run --pipeline=fetch gets them "
            'there. --params "raw_dir=FOLDER" names another folder, --params '
            '"datasets=present" takes those of the paper that are there.'
        )

    @staticmethod
    def _input_message(catalog: CatalogProtocol) -> str:
        given = catalog.load("params:input")
        if given is not None:
            return f"{given} is missing"
        return (
            'No table is given: --params "input=FILE,labels_prefix=label_" names one (.csv, '
            ".parquet, .mat or .arff) and says which of its columns are labels"
        )

    @staticmethod
    def _refuse_unread(context: KedroContext, parameters: Mapping[str, Any]) -> None:
        """The catalog has these from the command line: elsewhere they would change nothing."""
        given = context.config_loader.runtime_params or {}
        raw_dir = given.get("raw_dir", context.config_loader["globals"]["raw_dir"])
        read = {"raw_dir": raw_dir, **{name: given.get(name) for name in OF_THE_COMMAND_LINE}}
        for name, value in read.items():
            if parameters[name] != value:
                raise ParameterError(
                    f"{name} is set in a file of parameters, where it is not read: give it by "
                    f'--params "{name}=..."'
                    + (", or in conf/local/globals.yml" if name == "raw_dir" else "")
                )

    def _refuse_unknown(self, context: KedroContext, parameters: Mapping[str, Any]) -> None:
        """A misspelt parameter would change nothing, silently.

        Parameters of a user's own nodes are welcome in the configuration, unless their names are
        nearly those of the project's.
        """
        loader = context.config_loader
        configured = OmegaConfigLoader(
            conf_source=loader.conf_source,
            env=loader.env,
            base_env=loader.base_env,
            default_run_env=loader.default_run_env,
        )["parameters"]
        own = {
            *RunOptions.model_fields,
            *LABEL_COLUMNS,
            *(method.parameters for method in METHODS.values()),
        }
        for name in parameters:
            if name not in configured:
                raise ParameterError(
                    f"there is no parameter {name!r}{suggestion(name, configured)}"
                )
            if name not in own and get_close_matches(name, own, n=1, cutoff=0.8):
                raise ParameterError(f"there is no parameter {name!r}{suggestion(name, own)}")


class SharedFolder:
    """Lets a run share its project with others, and with those that were killed."""

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Take note of where artifacts are."""
        self._artifacts = context.config_loader["globals"]["artifacts"]

    @hook_impl
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Remove what was left half-written; read what this run writes, not what another does."""
        project = Path(run_params["project_path"])
        folders = {project / "data"}
        # In an object store nothing is there before it is whole.
        if "://" not in self._artifacts:
            folders.add(project / self._artifacts)
        for folder in folders:
            remove_left_over(folder.rglob(PARTIAL))
        remove_left_over(project.glob(PARTIAL))
        for name in pipeline.all_outputs():
            dataset = catalog.get(name)
            if isinstance(dataset, AbstractVersionedDataset) and dataset._version:
                written = dataset.resolve_save_version()
                dataset._version = Version(written, written)


class PlainErrors:
    """Ends a run in a message where a user, a disk or a server is at fault, not the program."""

    @hook_impl(wrapper=True)
    def on_pipeline_error(self, error: Exception) -> Iterator[None]:
        """Raise the error that can be read, if that is what stopped the run."""
        try:
            # Other hooks report to MLflow, which may be what has failed.
            return (yield)
        finally:
            plain = plain_error(error)
            if plain is not None:
                raise plain from None


def plain_error(error: BaseException | None) -> click.ClickException | None:
    """The error of a user, a disk or MLflow in a chain of errors, as one to be shown."""
    from mlflow.exceptions import MlflowException
    from safetensors import SafetensorError

    while error is not None:
        if isinstance(error, click.ClickException):
            return error
        # Those of object stores have no number.
        of_disk = isinstance(error, PermissionError) or type(error).__module__.startswith(
            "botocore"
        )
        of_disk |= isinstance(error, OSError) and error.errno in DISK_ERRORS
        if of_disk or (isinstance(error, SafetensorError) and "I/O error" in str(error)):
            return click.ClickException(f"A file cannot be written or read: {error}. {GO_ON}")
        if isinstance(error, MlflowException):
            return click.ClickException(f"MLflow has failed: {error}. {GO_ON}")
        error = error.__cause__
    return None


class ExperimentTracking:
    """One MLflow run per dataset and method, below the run that kedro-mlflow starts.

    The runs of cells are written through the client, by run id: the fluent interface keeps its
    state per thread. Workers of a parallel runner find the parent in the environment.
    """

    PARENT = "CONLE_MLFLOW_PARENT_RUN"
    PROCESS = "process"
    # MLflow takes tags of new runs from this variable.
    CONTEXT = "MLFLOW_RUN_CONTEXT"
    BATCH = 1000

    def __init__(self) -> None:
        self._runs: dict[tuple, str] = {}

    @hook_impl(tryfirst=True)
    def after_context_created(self) -> None:
        """Have every run say of which process it is, from its first moment on."""
        given = json.loads(os.environ.get(self.CONTEXT, "{}"))
        os.environ[self.CONTEXT] = json.dumps({**given, self.PROCESS: this_process()})

    @hook_impl(trylast=True)
    def before_pipeline_run(self, run_params: dict[str, Any]) -> None:
        """Take note of the parent run, and see that no run stays open when the process ends."""
        import mlflow

        os.environ.pop(self.PARENT, None)
        parent = mlflow.active_run()
        if parent is None:
            return
        # Kedro calls no hook on Ctrl-C.
        atexit.register(self._close_all, parent.info.run_id, "KILLED")
        os.environ[self.PARENT] = parent.info.run_id
        client = self.client()
        client.set_tag(parent.info.run_id, "git_commit", git_commit(run_params["project_path"]))
        # A run that kedro-mlflow is told to go on with was another process's.
        client.set_tag(parent.info.run_id, self.PROCESS, this_process())
        for run in client.search_runs(
            [parent.info.experiment_id], "attributes.status = 'RUNNING'", max_results=50_000
        ):
            if self.PROCESS in run.data.tags and not is_alive(run.data.tags[self.PROCESS]):
                client.set_terminated(run.info.run_id, "KILLED")

    @hook_impl
    def before_node_run(self, node: Node, catalog: CatalogProtocol, inputs: dict[str, Any]) -> None:
        """Open the run of a dataset and method."""
        self._catalog = catalog
        if "recovery" not in node.tags or self._parent_id() is None:
            return
        dataset, method = _cell(node)
        parameters = {
            name.removeprefix("params:"): value
            for name, value in inputs.items()
            if name.startswith("params:")
        }
        bound = node.func.keywords
        block = METHODS[bound["method"]].parameters
        taken = {**parameters[block], **bound["overrides"], **METHODS[bound["method"]].fixed}
        parameters[block] = taken
        (source,) = read_by_hooks(node)
        self._open(dataset, method, parameters, catalog.load(source))

    @hook_impl
    def after_dataset_saved(self, dataset_name: str, data: Any, node: Node) -> None:
        """Log what a node has saved to the run of its dataset and method."""
        if self._parent_id() is None:
            return
        *names, kind = dataset_name.split(".")
        if dataset_name in (
            "results",
            "summary",
            "comparison",
            "sensitivity",
            "convergence",
            "predictive",
        ):
            self._log_file(self._parent_id(), dataset_name, "tables")
        elif kind in ("posterior_choice", "agreement", "coverage"):
            self._log_file(self._parent_id(), dataset_name, "/".join(["posterior", *names]))
        elif dataset_name in ("sensitivity_curves", "convergence_curves"):
            self._log_file(self._parent_id(), dataset_name, "pictures")
        elif names[:1] == ["report"] or dataset_name == "report":
            self._log_file(self._parent_id(), dataset_name, "report")
        elif kind == "recovery_picture":
            self._log_file(self._parent_id(), dataset_name, "/".join(["pictures", *names]))
            for child in self._children(tags={"dataset": names[0]}):
                self._log_file(child.info.run_id, dataset_name, "pictures")
        elif kind in ("recovered", "cost", "curves", "recover_key", "scores", "training_curves"):
            dataset, method = _cell(node)
            run_id = self._run_of(dataset, method)
            if run_id is not None:
                self._log_cell(run_id, kind, dataset_name, data)

    @hook_impl
    def on_node_error(self, node: Node) -> None:
        """Mark the run of a dataset and method as failed."""
        if "recovery" in node.tags and self._parent_id() is not None:
            dataset, method = _cell(node)
            self._close_children({"dataset": dataset, "method": method}, "FAILED")

    @hook_impl
    def after_pipeline_run(self) -> None:
        """Close the runs of cells that were recovered and not scored."""
        atexit.unregister(self._close_all)
        if self._parent_id() is not None:
            self._close_children({}, "FINISHED")

    @hook_impl
    def on_pipeline_error(self) -> None:
        """Mark what is still open as failed; kedro-mlflow does so for the parent."""
        atexit.unregister(self._close_all)
        if self._parent_id() is not None:
            self._close_children({}, "FAILED")

    def _open(
        self,
        dataset: str,
        method: str,
        parameters: Mapping[str, Any],
        source: Mapping[str, str],
    ) -> None:
        from mlflow.entities import Param

        client, parent_id = self.client(), self._parent_id()
        parent = client.get_run(parent_id)
        if parent.info.status != "RUNNING":
            # A worker may begin what it was given by a client that is no more.
            raise ParameterError(f"the run {parent_id}, which this cell belongs to, has ended")
        run_id = self._run_of(dataset, method)
        if run_id is None:
            child = client.create_run(
                parent.info.experiment_id,
                run_name=f"{dataset} {method}",
                tags={
                    "mlflow.parentRunId": parent_id,
                    "dataset": dataset,
                    "method": method,
                    "protocol": parameters["protocol"],
                    "git_commit": parent.data.tags["git_commit"],
                    # A cell on a worker may outlive its run.
                    self.PROCESS: parent.data.tags[self.PROCESS],
                    "data_sha256": source["sha256"],
                },
            )
            run_id = child.info.run_id
        else:
            # A worker has died, and the cell is computed again.
            client.update_run(run_id, "RUNNING")
        client.log_batch(
            run_id,
            params=[
                Param(name, str(value))
                for name, value in {
                    "dataset": dataset,
                    "method": method,
                    **_flatten(parameters),
                }.items()
            ],
        )

    def _log_cell(self, run_id: str, kind: str, dataset_name: str, data: Any) -> None:
        if kind == "recovered":
            self._log_file(run_id, dataset_name, "recovered")
        elif kind == "training_curves":
            self._log_file(run_id, dataset_name, "pictures")
        elif kind == "recover_key":
            if data["failure"] is not None:
                self.client().set_tag(run_id, "failure", data["failure"])
                self.client().set_terminated(run_id, "FAILED")
            elif data["taken_from"] is not None:
                self.client().set_tag(run_id, "taken_from", data["taken_from"])
        elif "failure" in data or len(data) == 0:
            # Of a method that has failed.
            return
        elif kind == "cost":
            self._log_metrics(run_id, [(name, value, 0) for name, value in data.items()])
        elif kind == "curves":
            means = data.groupby(["quantity", "step"], sort=False)["value"].mean()
            self._log_metrics(
                run_id,
                [(quantity, value, step) for (quantity, step), value in means.items()],
            )
        else:
            values = data.groupby("measure", sort=False)["value"]
            deviations = values.std().dropna()
            self._log_metrics(
                run_id,
                [(name, value, 0) for name, value in values.mean().items()]
                + [(f"{name}_std", value, 0) for name, value in deviations.items()],
            )
            run = self.client().get_run(run_id)
            # Scores come when all methods are through: the run ends when its method did, that of
            # an earlier run's cell when it began.
            seconds = 0 if "taken_from" in run.data.tags else run.data.metrics["seconds"]
            end = run.info.start_time + int(1000 * seconds)
            self.client().set_terminated(run_id, "FINISHED", end)

    def _log_metrics(self, run_id: str, metrics: list[tuple[str, float, int]]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        entities = [Metric(name, float(value), now, int(step)) for name, value, step in metrics]
        for start in range(0, len(entities), self.BATCH):
            self.client().log_batch(run_id, metrics=entities[start : start + self.BATCH])

    def _log_file(self, run_id: str, dataset_name: str, folder: str) -> None:
        dataset = self._catalog.get(dataset_name)
        path = dataset._get_load_path()
        if dataset._protocol == "file":
            self.client().log_artifact(run_id, str(path), folder)
            return
        with TemporaryDirectory() as temporary:
            copy = Path(temporary) / path.name
            dataset._fs.get_file(str(path), str(copy))
            self.client().log_artifact(run_id, str(copy), folder)

    def _run_of(self, dataset: str, method: str) -> str | None:
        """The run of a dataset and method, if it is there; it is looked up once."""
        cell = self._parent_id(), dataset, method
        if cell not in self._runs:
            found = self._children({"dataset": dataset, "method": method})
            if not found:
                return None
            self._runs[cell] = found[0].info.run_id
        return self._runs[cell]

    def _children(self, tags: Mapping[str, str]) -> list:
        client, parent_id = self.client(), self._parent_id()
        conditions = {"mlflow.parentRunId": parent_id, **tags}
        return list(
            client.search_runs(
                [client.get_run(parent_id).info.experiment_id],
                " and ".join(f"tags.`{name}` = '{value}'" for name, value in conditions.items()),
                max_results=50_000,
            )
        )

    def _close_children(self, tags: Mapping[str, str], status: str) -> None:
        for child in self._children(tags):
            if child.info.status == "RUNNING":
                self.client().set_terminated(child.info.run_id, status)

    def _close_all(self, parent_id: str, status: str) -> None:
        """Close the parent and its children if they are open: the process ends."""
        import mlflow
        from mlflow.exceptions import MlflowException

        client = self.client()
        try:
            if client.get_run(parent_id).info.status != "RUNNING":
                return
            os.environ[self.PARENT] = parent_id
            self._close_children({}, status)
            while mlflow.active_run():
                mlflow.end_run(status)
            client.set_terminated(parent_id, status)
        except MlflowException as error:
            logger.warning("MLflow has failed (%s): the next run closes this one there", error)

    @classmethod
    def environment_of_workers(cls) -> dict[str, str]:
        """What a process on another machine needs, to write to this run."""
        parent = os.environ.get(cls.PARENT)
        if parent is None:
            return {}
        import mlflow

        return {cls.PARENT: parent, "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()}

    def _parent_id(self) -> str | None:
        return os.environ.get(self.PARENT)

    @classmethod
    def end_failed(cls, parent_id: str) -> None:
        """End the run of a `kedro run` whose nodes are done, as one that has failed."""
        import mlflow

        while mlflow.active_run():
            mlflow.end_run("FAILED")
        cls.client().set_terminated(parent_id, "FAILED")

    @staticmethod
    def client() -> Any:
        """MLflow's."""
        from mlflow import MlflowClient

        return MlflowClient()


class ModelLogging:
    """Logs the model of `--pipeline=enhance` to MLflow, and registers it."""

    ROWS_OF_EXAMPLE = 3

    @hook_impl(tryfirst=True)
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Log the fitted model as a pyfunc, with the folder as its artifact."""
        parent = os.environ.get(ExperimentTracking.PARENT)
        if parent is None or "enhance.model" not in pipeline.all_outputs():
            return
        import mlflow
        from mlflow.exceptions import MlflowException
        from mlflow.models import infer_signature

        # Read again: a runner's workers have kept no row of it here.
        example = pd.concat(catalog.load("enhance.input"), axis=1)[: self.ROWS_OF_EXAMPLE]
        # Whole numbers too may be missing, or come with a fraction, in other rows.
        numbers = example.select_dtypes(["number", "bool"]).columns
        example = example.astype(dict.fromkeys(numbers, "float64"))
        distributions = catalog.load("enhance.distributions")[: self.ROWS_OF_EXAMPLE]
        try:
            with nullcontext() if mlflow.active_run() else mlflow.start_run(run_id=parent):
                mlflow.pyfunc.log_model(
                    name="model",
                    python_model=str(Path(__file__).with_name("serving.py")),
                    artifacts={"model": str(catalog.get("enhance.model")._get_load_path())},
                    signature=infer_signature(example, distributions),
                    input_example=example,
                    registered_model_name=catalog.load("params:registered_model"),
                    pip_requirements=[f"conle=={version('conle')}"],
                )
        except MlflowException as error:
            ExperimentTracking.end_failed(parent)
            raise plain_error(error) from None


class RunReport:
    """Prints the summary of a run, and where its results are."""

    @hook_impl(trylast=True)
    def after_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Print the table of measures; end with an error where a method has failed.

        Raises:
            FailedCellsError: names them.
        """
        outputs = pipeline.all_outputs()
        if outputs & {"summary", "report", "enhance.checks"}:
            self._print(Path(run_params["project_path"]), outputs, catalog)
        keys = sorted(name for name in outputs if name.endswith("_key"))
        failures = {
            name.rpartition(".")[0].replace(".", " "): failure
            for name in keys
            if (failure := catalog.load(name)["failure"]) is not None
        }
        if not failures:
            return
        parent = os.environ.get(ExperimentTracking.PARENT)
        if parent is not None:
            ExperimentTracking.end_failed(parent)
        raise FailedCellsError(
            f"{len(failures)} of {len(keys)} cells have failed, all others are done:\n"
            + "\n".join(f"  {cell}: {failure}" for cell, failure in failures.items())
        )

    @staticmethod
    def _print(project: Path, outputs: set[str], catalog: CatalogProtocol) -> None:
        import mlflow
        from rich.console import Console

        console = Console()
        if not console.is_terminal:
            console = Console(width=180)
        if "summary" in outputs:
            console.print(summary_table(catalog.load("summary")))
        if "enhance.check_table" in outputs:
            console.print(checks_table(catalog.load("enhance.check_table")))

        def saved(name: str) -> str:
            dataset = catalog.get(name)
            path = dataset._get_load_path()
            protocol = getattr(dataset, "_protocol", "file")
            return os.path.relpath(path, project) if protocol == "file" else f"{protocol}://{path}"

        pictures = sorted(
            name for name in outputs if name.endswith((".recovery_picture", ".training_curves"))
        )
        parent = os.environ.get(ExperimentTracking.PARENT)
        shown = [(name.capitalize(), name) for name in ("results", "summary") if name in outputs]
        shown += [("Picture", name) for name in pictures]
        shown += [("Report", name) for name in ("report",) if name in outputs]
        shown += [(title, name) for title, name in ENHANCED if name in outputs]
        lines = [f"{title:<9} {saved(name)}" for title, name in shown]
        if parent is not None:
            lines.append(
                f"MLflow    run {parent}; to compare runs: "
                f"mlflow ui --backend-store-uri {_shortened(mlflow.get_tracking_uri(), project)}"
            )
        console.print("\n".join(lines), highlight=False, soft_wrap=True)


def read_by_hooks(node: Node) -> set[str]:
    """Artifacts that hooks read when a node runs, beside its inputs."""
    return {f"{_cell(node)[0]}.source"} if "recovery" in node.tags else set()


def _cell(node: Node) -> tuple[str, str]:
    """Dataset and method of a node, from its namespace."""
    dataset, method = node.namespace.split(".")
    return dataset, method


def _flatten(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def without_password(uri: str) -> str:
    """An address as it may be shown."""
    return re.sub("//[^/@]*@", "//", uri)


def _shortened(uri: str, project: Path) -> str:
    if uri.startswith("sqlite:///"):
        # A shell would take the question mark for a pattern.
        uri = uri.partition("?")[0]
    return without_password(uri.replace(f"{project.as_posix()}/", ""))
