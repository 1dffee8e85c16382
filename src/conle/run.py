"""A run is a version: it records what its results depend on, and can be resumed and reported.

Every run writes `run.json` at its start and `outcome.json` at its end, under its own version. A run
without an outcome, or with failed cells, can be resumed: it goes on under the same version.
"""

import hashlib
import logging
import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as version_of
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import fsspec
from kedro.framework.session.store import BaseSessionStore
from kedro.io import AbstractVersionedDataset, CatalogProtocol, DatasetError
from kedro.io.core import Version, is_parameter
from kedro.pipeline import Node, Pipeline

from conle import kedro_internals
from conle.errors import ParameterError
from conle.process_identity import is_alive, this_process

if TYPE_CHECKING:
    import pandas as pd

    from conle.data.atomic import JSONDataset

logger = logging.getLogger(__name__)

RUN, OUTCOME = "run.json", "outcome.json"
LAYER = "08_reporting"
# The report's entry for what runs have left of all cells.
RECORDED = "recorded"
# The last bits of results depend on the versions of these.
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pandas")
# Parameters that do not change results.
WITHOUT_EFFECT = ("resume", "registered_model", "fetch_from")
# Entries of `run.json` that may differ in a resumed run, or that other entries cover: `nodes`
# covers datasets and methods, and `threads` covers the parameter.
NOT_COMPARED = ("process", "parameters.threads", "datasets", "methods")
# A report shows runs whose values of these parameters equal its own.
PROTOCOL = ("protocol", "repeats", "folds", "seed", "threshold")


@dataclass(frozen=True)
class RecordedRun:
    """A run that is recorded in the catalog.

    Attributes:
        version: version of everything the run has written.
        record: content of `run.json`.
        outcome: content of `outcome.json`; None if the run has not come to its end.
    """

    version: str
    record: Mapping[str, Any]
    outcome: Mapping[str, Any] | None

    @property
    def resumable(self) -> bool:
        """Whether work is left to do and no process does it."""
        unfinished = self.outcome is None or bool(self.outcome["failed"])
        return unfinished and not (self.outcome is None and is_alive(self.record["process"]))

    @property
    def protocol(self) -> dict[str, Any]:
        """The parameters of the protocol."""
        return {name: self.record["parameters"][name] for name in PROTOCOL}


class SessionStore(BaseSessionStore):
    """Gives each session a version: a new one, or that of the run to resume.

    Kedro's session id is the millisecond in which the session begins. Two sessions may
    begin in the same millisecond, so the version has a random suffix.
    """

    resumed: str | None = None

    def __init__(self, path: str, session_id: str) -> None:
        version = SessionStore.resumed or f"{session_id}-{token_hex(2)}"
        SessionStore.resumed = None
        super().__init__(path, version)

    def __setitem__(self, key: str, value: Any) -> None:
        """Keep a value; the session's id is always the version."""
        super().__setitem__(key, self._session_id if key == "session_id" else value)


def describe(
    parameters: Mapping[str, Any],
    pipelines: Sequence[str],
    pipeline: Pipeline,
    catalog: CatalogProtocol,
) -> dict[str, Any]:
    """Describe a run: everything that its results depend on.

    Args:
        parameters: all parameters of the run.
        pipelines: names of the pipelines.
        pipeline: the nodes that the command selects.
        catalog: finds the raw files.
    """
    nodes = pipeline.nodes
    cells = [node.func.cell for node in nodes if has_cell(node)]
    names = "\n".join(sorted(node.name for node in nodes))
    return {
        "pipelines": list(pipelines),
        "nodes": hashlib.blake2b(names.encode(), digest_size=16).hexdigest(),
        "parameters": comparable(parameters),
        "datasets": sorted({cell.dataset for cell in cells}),
        "methods": sorted({cell.name for cell in cells}),
        "raw_files": {
            name: _digest_of_files(catalog, name)
            for name in sorted(pipeline.inputs())
            if name.endswith(".raw") or name in ("enhance.input", "enhance.fitted_model")
        },
        "inputs": {
            name: catalog.get(name).resolve_load_version()
            for name in sorted(entries_read(pipeline, catalog))
            if kedro_internals.is_versioned(catalog.get(name)) and catalog.exists(name)
        },
        **made_with(),
        "machine": f"{platform.machine()} {platform.processor()}",
        "gpu": _gpu() if any("gpu" in node.tags for node in nodes) else None,
        "threads": parameters["threads"] or _cores(),
        "process": this_process(),
    }


def entries_read(pipeline: Pipeline, catalog: CatalogProtocol) -> set[str]:
    """The entries that a run reads and does not write, those behind `recorded` included."""
    names = {name for name in pipeline.inputs() if not is_parameter(name)}
    if RECORDED in names:
        names |= catalog.get(RECORDED).entries.keys() - pipeline.all_outputs()
    return names


def comparable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that change results; names of datasets become a list."""
    own = {name: value for name, value in parameters.items() if name not in WITHOUT_EFFECT}
    if isinstance(own.get("datasets"), str):
        own["datasets"] = own["datasets"].split("+")
    return own


def has_cell(node: Node) -> bool:
    """Whether a node belongs to a cell."""
    return hasattr(node.func, "cell")


def made_with() -> dict[str, str]:
    """A digest of the package's code, and versions of the packages that results depend on."""
    return {"code": _digest_of_code(), **{package: version_of(package) for package in PACKAGES}}


def recorded_runs(artifacts: str) -> list[RecordedRun]:
    """All runs that are recorded, the newest first.

    Args:
        artifacts: folder or address of the artifacts.
    """
    files, folder = fsspec.url_to_fs(artifacts, use_listings_cache=False)
    paths = files.glob(f"{folder}/{LAYER}/{RUN}/*/{RUN}")
    versions = sorted((PurePosixPath(path).parent.name for path in paths), reverse=True)
    return [found for version in versions if (found := find(artifacts, version)) is not None]


def find(artifacts: str, version: str) -> RecordedRun | None:
    """The run of a version; None if it is not recorded."""
    record, outcome = (_file(artifacts, version, name) for name in (RUN, OUTCOME))
    if not record.exists():
        return None
    try:
        found = RecordedRun(version, record.load(), outcome.load() if outcome.exists() else None)
    except DatasetError:
        logger.warning("The record of the run %s cannot be read; the run is left out", version)
        return None
    return found if "parameters" in found.record else None


def lock(artifacts: str, version: str) -> AbstractContextManager:
    """Let one command at a time take a run over. An object store has no locks."""
    if "://" in artifacts:
        return nullcontext()
    from filelock import FileLock

    return FileLock(Path(artifacts, LAYER, RUN, version, ".lock"))


def refuse_taken(found: RecordedRun) -> None:
    """Refuse a run that another process has taken over.

    Raises:
        ParameterError: names the run.
    """
    process = found.record["process"]
    if found.outcome is None and process != this_process() and is_alive(process):
        raise ParameterError(f"Another command goes on with the run {found.version} already.")


def begin(artifacts: str, version: str, record: Mapping[str, Any]) -> None:
    """Write `run.json`, and remove the outcome of the run that is resumed."""
    _file(artifacts, version, RUN).save(dict(record))
    outcome = _file(artifacts, version, OUTCOME)
    if outcome.exists():
        _remove(outcome)


def end(artifacts: str, version: str, failed: Mapping[str, str]) -> None:
    """Write `outcome.json`.

    Args:
        artifacts: folder or address of the artifacts.
        version: version of the run.
        failed: why cells failed, by their titles.
    """
    _file(artifacts, version, OUTCOME).save({"failed": dict(failed)})


def _file(artifacts: str, version: str, name: str) -> "JSONDataset":
    from conle.data.atomic import JSONDataset

    return JSONDataset(
        filepath=f"{artifacts}/{LAYER}/{name}",
        version=Version(version, version),
        save_args={"indent": 1},
    )


def run_to_resume(
    artifacts: str, pipelines: Sequence[str], given: Mapping[str, Any]
) -> RecordedRun | None:
    """Find the newest unfinished run of the same pipelines and datasets.

    A run with the same parameters comes before newer ones with others.

    Args:
        artifacts: folder or address of the artifacts.
        pipelines: names of the pipelines.
        given: the parameters of the command.
    """
    wanted = comparable(given)
    unfinished = [
        run
        for run in recorded_runs(artifacts)
        if run.resumable
        and run.record["pipelines"] == list(pipelines)
        and wanted.get("datasets") in (None, run.record["parameters"]["datasets"])
    ]
    same = [
        run
        for run in unfinished
        if flatten(wanted).items() <= flatten(run.record["parameters"]).items()
    ]
    return next(iter([*same, *unfinished]), None)


def refuse_other(recorded: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Refuse to resume a run that differs from the present one.

    Raises:
        ParameterError: says what differs.
    """
    before, now = flatten(recorded), flatten(present)
    differing = [
        f"  {_difference(name, before.get(name), now.get(name))}"
        for name in before | now
        if name not in NOT_COMPARED and before.get(name) != now.get(name)
    ]
    if differing:
        raise ParameterError(
            "The unfinished run cannot be resumed, because this one differs:\n"
            + "\n".join(differing)
            + "\nRun the same command without --resume to begin a new run."
        )


def _difference(name: str, before: Any, now: Any) -> str:
    """Describe a difference, without digests."""
    if name == "code" or name.startswith("raw_files"):
        return f"{name.removeprefix('raw_files.')} has changed"
    if name == "nodes":
        return "other nodes are selected"
    return f"{name.removeprefix('parameters.')}: {before!r}, now {now!r}"


def outputs_to_make_again(pipeline: Pipeline, catalog: CatalogProtocol) -> set[str]:
    """Outputs that a resumed run makes: those of failed or unfinished nodes, and of nodes after.

    Kedro's own rule (`only_missing_outputs`) leaves out nodes whose outputs exist, even if a node
    before them runs again.
    """
    again: set[str] = set()
    for node in pipeline.nodes:
        stored = [name for name in node.outputs if kedro_internals.is_versioned(catalog.get(name))]
        if (
            again.intersection(node.inputs)
            or not all(catalog.exists(name) for name in stored)
            or any(failure_of(catalog, name) for name in stored)
        ):
            again |= set(node.outputs)
    return again


def failure_of(catalog: CatalogProtocol, name: str) -> str | None:
    """Why the node of an output failed; None if it did not, or if the output records no failure."""
    if not name.endswith(("cost", "posterior_weights")):
        return None
    return (catalog.load(name) or {}).get("failure")


def failures(pipeline: Pipeline, catalog: CatalogProtocol) -> dict[str, str]:
    """Why cells failed, by their titles."""
    return {
        node.func.cell.title: failure
        for node in pipeline.nodes
        if has_cell(node)
        for name in node.outputs
        if (failure := failure_of(catalog, name)) is not None
    }


def remove_output(catalog: CatalogProtocol, name: str) -> None:
    """Remove the version of an output that this run would write."""
    dataset = catalog.get(name)
    if not kedro_internals.is_versioned(dataset) or not dataset.exists():
        return
    _remove(dataset)


def _remove(dataset: AbstractVersionedDataset) -> None:
    _, files = kedro_internals.file_system(dataset)
    path = str(kedro_internals.save_path(dataset))
    (files or fsspec.filesystem("file")).rm(path, recursive=True)


def of_protocol(runs: Sequence[RecordedRun], parameters: Mapping[str, Any]) -> list[RecordedRun]:
    """The runs of the same protocol, repeats, folds, seed and threshold, the newest first."""
    wanted = {name: parameters[name] for name in PROTOCOL}
    return [run for run in runs if run.protocol == wanted]


def versions_of_data(
    runs: Sequence[RecordedRun], comparable_runs: Sequence[RecordedRun], dataset: str
) -> list[str]:
    """The versions whose raw file of a dataset is that of the newest run, the newest first.

    Args:
        runs: all recorded runs.
        comparable_runs: the runs to choose among, the newest first.
        dataset: name of the dataset.
    """
    by_version = {run.version: run for run in runs}
    data = {run.version: _data_of(run, dataset, by_version) for run in comparable_runs}
    newest = next((own for own in data.values() if own is not None), None)
    return [version for version, own in data.items() if own in (None, newest)]


def _data_of(run: RecordedRun, dataset: str, by_version: Mapping[str, RecordedRun]) -> str | None:
    """The digest of the raw file that a run read, itself or through an earlier run."""
    if f"{dataset}.raw" in run.record.get("raw_files", {}):
        return run.record["raw_files"][f"{dataset}.raw"]
    for name, version in run.record.get("inputs", {}).items():
        if name.startswith(f"{dataset}.") and version in by_version:
            return _data_of(by_version[version], dataset, by_version)
    return None


def runs_table(runs: Sequence[RecordedRun]) -> "pd.DataFrame":
    """The runs whose cells a report can show, each with the command that reports on it.

    Returns:
        Columns run, pipelines, protocol, repeats, folds, seed, threshold, datasets, methods,
        finished and command; one row per protocol, datasets and methods, the newest first.
    """
    import pandas as pd

    rows = []
    for run in runs:
        own = run.record
        if not own["datasets"] or "enhance" in own["datasets"]:
            continue
        datasets = "+".join(own["datasets"])
        options = {"datasets": datasets, **run.protocol}
        given = ",".join(f"{name}={value}" for name, value in options.items())
        rows.append(
            {
                "run": run.version,
                "pipelines": ", ".join(own["pipelines"]),
                **run.protocol,
                "datasets": ", ".join(own["datasets"]),
                "methods": ", ".join(own["methods"]),
                "finished": "no" if run.outcome is None else "yes",
                "command": f'kedro run --pipeline=report --params "{given}"',
            }
        )
    columns = ["run", "pipelines", *PROTOCOL, "datasets", "methods", "finished", "command"]
    table = pd.DataFrame(rows, columns=columns)
    return table.drop_duplicates([*PROTOCOL, "datasets", "methods"], ignore_index=True)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested values; the names of all levels are joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _digest_of_files(catalog: CatalogProtocol, name: str) -> str:
    """A digest of a dataset's file, or of all files of its folder."""
    dataset = catalog.get(name)
    _, files = kedro_internals.file_system(dataset)
    files = files or fsspec.filesystem("file")
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(files.find(str(kedro_internals.load_path(dataset)))):
        content.update(files.cat(path))
    return content.hexdigest()


def _cores() -> int:
    """Threads that a method uses by default."""
    limit = os.environ.get("OMP_NUM_THREADS")
    if limit:
        # One number for each level of nested parallel regions.
        return int(limit.split(",")[0])
    # Only Linux tells which cores a process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


@cache
def _digest_of_code() -> str:
    package = Path(__file__).parent
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(package.rglob("*.py")):
        content.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return content.hexdigest()
