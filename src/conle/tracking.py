"""Hooks: one MLflow run per cell, below the run that kedro-mlflow starts.

The catalog says what is logged, in `metadata: {mlflow: ...}` of an entry: `artifact_path` logs the
file, `metrics` logs numbers (those of a mapping that it lists, "steps" of curves, "measures" of
scores); `run` says where: "parent" (the default), "cell", or "dataset" for the parent and all its
cells.
"""

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import CatalogProtocol
from kedro.pipeline import Node, Pipeline

from conle import kedro_internals
from conle.data.provenance import git_commit
from conle.errors import ParameterError
from conle.messages import run_title, short_uri
from conle.process_identity import is_alive, this_process
from conle.run import RECORDED, WITHOUT_EFFECT, comparable, failures, flatten, has_cell
from conle.tracking_view import page_of, view_tag

if TYPE_CHECKING:
    import pandas as pd

    from conle.cells import Cell
    from conle.data.models import FittedModel

logger = logging.getLogger(__name__)

# Workers of a parallel runner find the parent run in the environment.
PARENT = "CONLE_MLFLOW_PARENT_RUN"
PROCESS = "process"
# MLflow takes tags of new runs from this variable.
RUN_CONTEXT = "MLFLOW_RUN_CONTEXT"
METRICS_PER_REQUEST = 1000
PARAMETERS_PER_REQUEST = 100
MOST_RUNS = 50_000
ROWS_OF_EXAMPLE = 3
# MLflow keeps no more characters of a dataset's digest; the source has the whole SHA-256.
LENGTH_OF_DIGEST = 36
# The parent run has the means of these measures.
HEADLINES = ("kl_divergence", "canberra")


class ExperimentTracking:
    """Logs to MLflow through its client, by run id: the fluent interface keeps state per thread."""

    def __init__(self) -> None:
        self._runs: dict[tuple, str] = {}

    @hook_impl(tryfirst=True)
    def after_context_created(self, context: KedroContext) -> None:
        """Tag each new run with this process as soon as it begins."""
        import mlflow

        # The code that began a run ends it.
        self._begins_run = mlflow.active_run() is None
        given = json.loads(os.environ.get(RUN_CONTEXT, "{}"))
        os.environ[RUN_CONTEXT] = json.dumps({**given, PROCESS: this_process()})
        self._context = context

    @hook_impl(trylast=True)
    def before_pipeline_run(self, run_params: dict[str, Any], pipeline: Pipeline) -> None:
        """Keep and name the parent run; mark open runs of ended processes as killed."""
        import mlflow
        from mlflow.entities import Param, RunTag

        os.environ.pop(PARENT, None)
        parent = mlflow.active_run()
        if parent is None:
            return
        run_id = os.environ[PARENT] = parent.info.run_id
        address = short_uri(mlflow.get_tracking_uri(), Path(run_params["project_path"]))
        logger.info("MLflow tracks this run at %s", address)
        if self._begins_run:
            # Otherwise, kedro-mlflow opens the run once more for every node.
            self._context.mlflow.tracking.run.nested = False
        client = mlflow_client()
        # A resumed run has the tag of its earlier process.
        tags = {"git_commit": git_commit(run_params["project_path"]), PROCESS: this_process()}
        given = self._context.config_loader["parameters"]
        pipelines = run_params.get("pipeline_names") or ["__default__"]
        # Any other name than kedro-mlflow's was given by a person, or before the run was resumed.
        if parent.info.run_name == "+".join(pipelines):
            tags["mlflow.runName"] = run_title(pipelines, datasets_of(pipeline, given), given)
        client.log_batch(run_id, tags=[RunTag(*tag) for tag in tags.items()])
        parameters = [
            Param(name, str(value))
            for name, value in flatten(given).items()
            if name not in WITHOUT_EFFECT and self._begins_run
        ]
        for start in range(0, len(parameters), PARAMETERS_PER_REQUEST):
            client.log_batch(run_id, params=parameters[start : start + PARAMETERS_PER_REQUEST])
        for run in client.search_runs(
            [parent.info.experiment_id], "attributes.status = 'RUNNING'", max_results=MOST_RUNS
        ):
            if PROCESS in run.data.tags and not is_alive(run.data.tags[PROCESS]):
                client.set_terminated(run.info.run_id, "KILLED")

    @hook_impl
    def before_node_run(self, node: Node, catalog: CatalogProtocol) -> None:
        """Open the run of a cell."""
        self._catalog = catalog
        if parent_id() is None:
            return
        if "recovery" in node.tags:
            cell = node.func.cell
            self._open(cell, catalog.load(f"{cell.dataset}.source"))

    @hook_impl
    def after_dataset_loaded(self, dataset_name: str, data: Any) -> None:
        """Log the method and the hyperparameters of a model that is applied."""
        if dataset_name == "enhance.fitted_model" and parent_id() is not None:
            log_model_parameters(data)

    @hook_impl
    def after_dataset_saved(self, dataset_name: str, data: Any, node: Node) -> None:
        """Log what a node has saved, as the entry's metadata asks; of a model, its method."""
        if dataset_name == "enhance.model" and parent_id() is not None:
            log_model_parameters(data)
        metadata = getattr(self._catalog.get(dataset_name), "metadata", None) or {}
        wanted = metadata.get("mlflow")
        if wanted is None or parent_id() is None:
            return
        target = wanted.get("run", "parent")
        if target == "cell":
            run_id = self._run_of(*node.namespace.split("."))
            if run_id is None:
                return
            if "metrics" in wanted:
                self._log_numbers(run_id, wanted["metrics"], data)
            else:
                self._log_file(run_id, dataset_name, wanted["artifact_path"])
            return
        self._log_file(parent_id(), dataset_name, wanted["artifact_path"])
        if target == "dataset":
            for child in children({"dataset": dataset_name.partition(".")[0]}):
                self._log_file(child.info.run_id, dataset_name, "pictures")

    @hook_impl
    def on_node_error(self, node: Node) -> None:
        """Mark the run of a cell as failed."""
        if "recovery" in node.tags and parent_id() is not None:
            cell = node.func.cell
            close_children({"dataset": cell.dataset, "method": cell.name}, "FAILED")

    @hook_impl
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """End the run and the open runs of cells; if a cell has failed, so has the run."""
        if parent_id() is None:
            return
        cells = close_children({}, "FINISHED")
        if cells:
            view = view_tag(parent_id(), HEADLINES)
            mlflow_client().set_experiment_tag(experiment_of(parent_id()), *view)
        if self._begins_run:
            if "summary" in pipeline.all_outputs():
                log_comparison(catalog, cells)
            end("FAILED" if failures(pipeline, catalog) else "FINISHED")

    @hook_impl
    def on_pipeline_error(self) -> None:
        """Mark open runs of cells as failed; kedro-mlflow does so for the parent."""
        if parent_id() is not None:
            close_children({}, "FAILED")

    def _open(self, cell: "Cell", source: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        client = mlflow_client()
        parent = client.get_run(parent_id())
        if parent.info.status != "RUNNING":
            # A worker may begin a node after its client has ended.
            raise ParameterError(f"the MLflow run {parent_id()} of this cell has ended")
        protocol = parent.data.params["protocol"]
        run_id = self._run_of(cell.dataset, cell.name)
        if run_id is None:
            run_id = client.create_run(
                parent.info.experiment_id,
                run_name=cell.title,
                tags={
                    "mlflow.parentRunId": parent_id(),
                    "dataset": cell.dataset,
                    "method": cell.name,
                    "protocol": protocol,
                    "git_commit": parent.data.tags["git_commit"],
                    # A cell's run is abandoned when the parent's process ends, not the worker's.
                    PROCESS: parent.data.tags[PROCESS],
                    "data_sha256": source["sha256"],
                },
            ).info.run_id
            self._runs[parent_id(), cell.dataset, cell.name] = run_id
        else:
            # The cell is computed again: its worker died, or its run is resumed.
            client.update_run(run_id, "RUNNING")
            if "failure" in client.get_run(run_id).data.tags:
                client.delete_tag(run_id, "failure")
        values = {
            "dataset": cell.dataset,
            "method": cell.name,
            "protocol": protocol,
            **{name: str(value) for name, value in cell.settings.items()},
            **{f"{cell.block_name}.{name}": value for name, value in cell.hyperparameters.items()},
        }
        client.log_batch(run_id, params=[Param(name, str(value)) for name, value in values.items()])

    def _log_numbers(self, run_id: str, kind: str | Sequence[str], data: Any) -> None:
        client = mlflow_client()
        if "failure" in data:
            client.set_tag(run_id, "failure", data["failure"])
            client.set_terminated(run_id, "FAILED")
        elif len(data) == 0:
            # A failed cell has no curves and no scores.
            return
        elif kind == "steps":
            means = data.groupby(["quantity", "step"], sort=False)["value"].mean()
            # MLflow shows a prefix as a section of charts, by the alphabet: after "Model metrics".
            log_metrics(
                run_id,
                [(f"training/{name}", value, step) for (name, step), value in means.items()],
            )
        elif kind != "measures":
            log_metrics(run_id, [(name, data[name], 0) for name in kind])
        else:
            values = data.groupby("measure", sort=False)["value"]
            log_metrics(
                run_id,
                [(name, value, 0) for name, value in values.mean().items()]
                + [(f"std/{name}", value, 0) for name, value in values.std().dropna().items()],
            )
            # Scores come after all methods; the end time is that of this method. A run
            # that was killed before it logged the cost ends now.
            run = client.get_run(run_id)
            seconds = run.data.metrics.get("seconds")
            end_time = None if seconds is None else run.info.start_time + int(1000 * seconds)
            client.set_terminated(run_id, "FINISHED", end_time)

    def _log_file(self, run_id: str, dataset_name: str, folder: str) -> None:
        dataset = self._catalog.get(dataset_name)
        path = kedro_internals.load_path(dataset)
        protocol, files = kedro_internals.file_system(dataset)
        if protocol == "file":
            mlflow_client().log_artifact(run_id, str(path), folder)
            return
        with TemporaryDirectory() as temporary:
            copy = Path(temporary) / path.name
            files.get(str(path), str(copy), recursive=True)
            mlflow_client().log_artifact(run_id, str(copy), folder)

    def _run_of(self, dataset: str, name: str) -> str | None:
        """The run of a cell, if it exists; it is looked up once."""
        cell = parent_id(), dataset, name
        if cell not in self._runs:
            found = children({"dataset": dataset, "method": name})
            if not found:
                return None
            self._runs[cell] = found[0].info.run_id
        return self._runs[cell]


class ModelLogging:
    """Logs the model of `--pipeline=enhance` to MLflow, and registers it."""

    def __init__(self) -> None:
        self._first_rows: list[pd.DataFrame] | None = None

    @hook_impl
    def before_pipeline_run(self) -> None:
        """Forget the table of an earlier run of this process."""
        self._first_rows = None

    @hook_impl
    def after_dataset_loaded(self, dataset_name: str, data: Any) -> None:
        """Keep the first rows of the user's table, which are the example of the model."""
        if dataset_name == "enhance.input":
            self._first_rows = [table[:ROWS_OF_EXAMPLE].copy() for table in data]

    @hook_impl(tryfirst=True)
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Log the fitted model as a pyfunc, with its folder as an artifact."""
        if parent_id() is None or "enhance.model" not in pipeline.all_outputs():
            return
        if not catalog.exists("enhance.model"):
            # A transductive method leaves no model.
            return
        import mlflow
        import pandas as pd
        from mlflow.exceptions import MlflowException
        from mlflow.models import infer_signature

        if self._first_rows is None:
            # A worker of a runner has loaded the table, or an earlier run that is resumed.
            self.after_dataset_loaded("enhance.input", catalog.load("enhance.input"))
        example = pd.concat(self._first_rows, axis=1)
        # In other rows, whole numbers may be missing or have a fraction.
        numbers = example.select_dtypes(["number", "bool"]).columns
        example = example.astype(dict.fromkeys(numbers, "float64"))
        distributions = catalog.load("enhance.distributions")[:ROWS_OF_EXAMPLE]
        model = str(kedro_internals.load_path(catalog.get("enhance.model")))
        try:
            with nullcontext() if mlflow.active_run() else mlflow.start_run(run_id=parent_id()):
                mlflow.pyfunc.log_model(
                    name="model",
                    python_model=str(Path(__file__).with_name("serving.py")),
                    artifacts={"model": model},
                    signature=infer_signature(example, distributions),
                    input_example=example,
                    registered_model_name=catalog.load("params:registered_model"),
                    pip_requirements=[f"conle=={version('conle')}"],
                )
        except MlflowException:
            end("FAILED")
            raise


def continue_tracking(context: KedroContext, run_version: str) -> None:
    """Let kedro-mlflow go on with the MLflow run of a version, if there is one."""
    client = mlflow_client()
    experiment = client.get_experiment_by_name(context.mlflow.tracking.experiment.name)
    if experiment is None:
        return
    # kedro-mlflow tags its run with the session's id.
    found = client.search_runs([experiment.experiment_id], f"tags.run_id = '{run_version}'")
    if found:
        context.mlflow.tracking.run.id = found[0].info.run_id


def parent_id() -> str | None:
    """Id of the MLflow run of this `kedro run`; None if the run is not tracked."""
    return os.environ.get(PARENT)


def page_of_run() -> tuple[str, bool]:
    """What follows the server in the run's address, and whether it is a view of its methods."""
    experiment = mlflow_client().get_experiment(experiment_of(parent_id()))
    name, _ = view_tag(parent_id(), HEADLINES)
    compares = name in experiment.tags
    return page_of(experiment.experiment_id, parent_id(), compares), compares


def environment_of_workers() -> dict[str, str]:
    """Environment variables that let a process on another machine write to the parent run."""
    if parent_id() is None:
        return {}
    import mlflow

    return {PARENT: parent_id(), "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()}


def mlflow_client() -> Any:
    """A client of the tracking server."""
    from mlflow import MlflowClient

    return MlflowClient()


def children(tags: Mapping[str, str]) -> list:
    """The MLflow runs of cells with these tags."""
    client = mlflow_client()
    conditions = {"mlflow.parentRunId": parent_id(), **tags}
    return list(
        client.search_runs(
            [experiment_of(parent_id())],
            " and ".join(f"tags.`{name}` = '{value}'" for name, value in conditions.items()),
            max_results=MOST_RUNS,
        )
    )


@cache
def experiment_of(run_id: str) -> str:
    """Id of the experiment of a run, which never changes."""
    return mlflow_client().get_run(run_id).info.experiment_id


def close_children(tags: Mapping[str, str], status: str) -> list:
    """Close the open ones of the MLflow runs of cells with these tags, and return all."""
    found = children(tags)
    for child in found:
        if child.info.status == "RUNNING":
            mlflow_client().set_terminated(child.info.run_id, status)
    return found


def end(status: str) -> None:
    """End the parent run, and the runs of cells that are open."""
    import mlflow

    close_children({}, status)
    while mlflow.active_run():
        mlflow.end_run(status)
    mlflow_client().set_terminated(parent_id(), status)


def datasets_of(pipeline: Pipeline, parameters: Mapping[str, Any]) -> list[str]:
    """Names of the datasets of a run, or of the table that it enhances."""
    cells = [node.func.cell for node in pipeline.nodes if has_cell(node)]
    names = list(dict.fromkeys(cell.dataset for cell in cells))
    if names == ["enhance"]:
        return [Path(parameters["input"] or "input.csv").name]
    if not names and {RECORDED, "summary"} & (pipeline.inputs() | pipeline.all_outputs()):
        return comparable(parameters)["datasets"]
    return names


def log_comparison(catalog: CatalogProtocol, cells: Sequence) -> None:
    """Log the headline measures, the leaderboard and the datasets to the parent run.

    Args:
        catalog: holds the summary and the results.
        cells: the MLflow runs of cells, which know their data.
    """
    from mlflow.entities import Dataset, DatasetInput, Metric, RunTag

    from conle.reporting.description import board_of, describe

    summary, folds = catalog.load("summary"), catalog.load("params:folds")
    board, recovery = board_of(summary, folds)
    now = int(time.time() * 1000)
    means = board.set_index("method")[list(HEADLINES)].unstack().dropna()
    client = mlflow_client()
    client.log_batch(
        parent_id(),
        metrics=[
            Metric(f"{measure}.{method}", mean, now, 0) for (measure, method), mean in means.items()
        ],
        tags=[
            RunTag("mlflow.note.content", describe(board, recovery, catalog.load("results"), folds))
        ],
    )
    digests = {cell.data.tags["dataset"]: cell.data.tags["data_sha256"] for cell in cells}
    inputs = []
    for name, sha256 in digests.items():
        path = kedro_internals.load_path(catalog.get(f"{name}.raw"))
        source = json.dumps({"uri": str(path), "sha256": sha256})
        dataset = Dataset(name, sha256[:LENGTH_OF_DIGEST], "local", source)
        inputs.append(DatasetInput(dataset))
    log_inputs(client, parent_id(), inputs)


def log_inputs(client: Any, run_id: str, inputs: list) -> None:
    """Log the data of a run, which other runs may log at the same moment."""
    from mlflow.exceptions import MlflowException

    try:
        client.log_inputs(run_id, inputs)
    except MlflowException:
        # MLflow fails if another run has added the data since it looked. Now it finds them.
        client.log_inputs(run_id, inputs)


def log_model_parameters(model: "FittedModel") -> None:
    """Log the method of `--pipeline=enhance` and all its hyperparameters, as they take effect."""
    from mlflow.entities import Param

    values = {"method": model.method, **model.enhancer.get_params()}
    if model.kept_reading is not None:
        values["kept_reading"] = model.kept_reading
    params = [Param(f"enhance.{name}", str(value)) for name, value in values.items()]
    mlflow_client().log_batch(parent_id(), params=params)


def log_metrics(run_id: str, metrics: list[tuple[str, float, int]]) -> None:
    """Log numbers as name, value and step."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    entities = [Metric(name, float(value), now, int(step)) for name, value, step in metrics]
    for start in range(0, len(entities), METRICS_PER_REQUEST):
        mlflow_client().log_batch(run_id, metrics=entities[start : start + METRICS_PER_REQUEST])
