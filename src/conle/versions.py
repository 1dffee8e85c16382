"""Hooks: the versions that a run reads and writes, and its record."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kedro.framework.context import KedroContext
from kedro.framework.hooks import hook_impl
from kedro.io import AbstractVersionedDataset, CatalogProtocol
from kedro.pipeline import Pipeline

from conle import kedro_internals, run
from conle.errors import FailedCellsError, ParameterError
from conle.options import run_options
from conle.tracking import continue_tracking

logger = logging.getLogger(__name__)


class PinnedVersions:
    """A run reads its own outputs, and other inputs from the newest run of the same protocol."""

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Keep the parameters and the folder of the artifacts."""
        self._parameters, self._artifacts = parameters_and_artifacts(context)

    @hook_impl(tryfirst=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Pin the versions of all outputs and inputs, and of what the report reads.

        Raises:
            ParameterError: a version of the command line does not exist.
        """
        version = run_params["run_id"]
        for name in pipeline.all_outputs():
            dataset = catalog.get(name)
            if kedro_internals.is_versioned(dataset):
                kedro_internals.pin(dataset, version, version)
        if run.RECORDED in pipeline.inputs():
            # The report imports Matplotlib.
            from conle.reporting.exhibits import recorded_entries

            names = sorted(recorded_entries(run_options().datasets))
            catalog.get(run.RECORDED).entries = {name: catalog.get(name) for name in names}
        inputs = run.entries_read(pipeline, catalog)
        given = dict(run_params["load_versions"] or {})
        refuse_absent(given, catalog)
        runs = run.recorded_runs(self._artifacts)
        began = next((own for own in runs if own.version == version), None)
        if began is not None:
            # A resumed run reads what it read before.
            for name, recorded in began.record.get("inputs", {}).items():
                if name in inputs and name not in given:
                    kedro_internals.pin(catalog.get(name), recorded, version)
                    given[name] = recorded
        # An entry without a dataset in its name is a table of the whole project; these tables have
        # their own protocols.
        groups = defaultdict(list)
        for name in sorted(inputs - given.keys()):
            entry = catalog.get(name)
            if "." in name and kedro_internals.is_versioned(entry):
                groups[name.rpartition(".")[0]].append(entry)
        comparable = run.of_protocol(runs, self._parameters)
        for namespace, entries in groups.items():
            versions = run.versions_of_data(runs, comparable, namespace.split(".")[0])
            for entry, found in zip(entries, choose_versions(entries, versions), strict=True):
                # No run has it: the version of this run does not exist, so the input is missing.
                kedro_internals.pin(entry, found or version, version)


def refuse_absent(given: Mapping[str, str], catalog: CatalogProtocol) -> None:
    """Refuse versions of the command line that do not exist.

    Raises:
        ParameterError: names the artifact and its versions.
    """
    for name, version in given.items():
        entry = catalog.get(name)
        if not kedro_internals.is_versioned(entry):
            raise ParameterError(f"--load-versions: {name} has no versions")
        if not kedro_internals.has(entry, version):
            existing = entry.list_versions(full_path=False)
            raise ParameterError(
                f"--load-versions: {name} has no version {version!r}; "
                + (f"it has: {', '.join(existing)}" if existing else "no run has made it yet")
            )


def choose_versions(
    entries: Sequence[AbstractVersionedDataset], versions: Sequence[str]
) -> list[str | None]:
    """Choose the newest version that has all entries of a namespace; if none has, one for each.

    Args:
        entries: entries of one namespace, such as the scores and the cost of a cell.
        versions: versions of comparable runs, the newest first.
    """
    for version in versions:
        if all(kedro_internals.has(entry, version) for entry in entries):
            return [version] * len(entries)
    return [
        next((own for own in versions if kedro_internals.has(entry, own)), None)
        for entry in entries
    ]


class RunRecord:
    """Writes `run.json` and `outcome.json`; a resumed run is checked against its record."""

    @hook_impl
    def after_context_created(self, context: KedroContext) -> None:
        """Keep the context, the parameters and the folder of the artifacts."""
        self._context = context
        self._parameters, self._artifacts = parameters_and_artifacts(context)

    @hook_impl(tryfirst=True)
    def before_pipeline_run(
        self, run_params: dict[str, Any], pipeline: Pipeline, catalog: CatalogProtocol
    ) -> None:
        """Record the run, or prepare it to be resumed.

        Raises:
            ParameterError: the run to resume differs from this one, or another command goes on with
                it.
        """
        self._version = run_params["run_id"]
        names = sorted(run_params["pipeline_names"] or ["__default__"])
        present = run.describe(self._parameters, names, pipeline, catalog)
        if run.find(self._artifacts, self._version) is None:
            run.begin(self._artifacts, self._version, present)
            return
        with run.lock(self._artifacts, self._version):
            began = run.find(self._artifacts, self._version)
            run.refuse_taken(began)
            run.refuse_other(began.record, present)
            run.begin(self._artifacts, self._version, present)
        logger.info("Goes on with the run %s", self._version)
        for name in run.outputs_to_make_again(pipeline, catalog):
            run.remove_output(catalog, name)
        continue_tracking(self._context, self._version)

    @hook_impl(trylast=True)
    def after_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Record the outcome.

        Raises:
            FailedCellsError: names the nodes that failed; the others are done.
        """
        failures = run.failures(pipeline, catalog)
        run.end(self._artifacts, self._version, failures)
        if failures:
            cells = {node.func.cell.title for node in pipeline.nodes if run.has_cell(node)}
            raise FailedCellsError(
                f"{len(failures)} of {len(cells)} cells have failed, all others are done:\n"
                + "\n".join(f"  {cell}: {failure}" for cell, failure in failures.items())
            )


def parameters_and_artifacts(context: KedroContext) -> tuple[dict[str, Any], str]:
    """The parameters of a session, and the folder or address of its artifacts."""
    loader = context.config_loader
    return loader["parameters"], artifacts_folder(
        loader["globals"]["artifacts"], context.project_path
    )


def artifacts_folder(artifacts: str, project_path: str | Path) -> str:
    """The folder of the artifacts; relative to the project unless it is absolute or an address."""
    return artifacts if "://" in artifacts else str(Path(project_path) / artifacts)
