"""The project's `kedro run`: all of Kedro's options, and the project's own."""

import atexit
import errno
import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from kedro.config import OmegaConfigLoader
from kedro.framework.cli.project import run as kedro_run
from kedro.framework.cli.utils import CONTEXT_SETTINGS
from kedro.framework.hooks import hook_impl
from kedro.framework.project import settings
from kedro.io import CatalogProtocol
from kedro.pipeline import Pipeline
from kedro.utils import find_kedro_project
from yaml import YAMLError

from conle import tracking
from conle.errors import FailedCellsError, ParameterError
from conle.latest import link_latest, newest_model, open_page
from conle.messages import GO_ON, mlflow_lines, short_uri
from conle.run import SessionStore, run_to_resume
from conle.versions import artifacts_folder

# MLflow gives this advice to writers of models whenever Kedro loads its plugins.
ADVICE = "Add type hints to the `predict` method"
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
# Parameters that name a file or a folder.
PATHS = ("input", "model", "labels_xml", "raw_dir")
OPTIONS = (
    click.Option(
        ["--datasets"],
        help="Names of datasets, joined by commas; the same as --params datasets=A+B.",
    ),
    click.Option(
        ["--input", "input_file"],
        help="The table of --pipeline=enhance; the same as --params input=FILE.",
    ),
    click.Option(
        ["--resume"],
        is_flag=True,
        help="Go on with the newest run of this pipeline that did not finish.",
    ),
)


def without_advice(show: Callable) -> Callable:
    """Show all warnings but MLflow's advice; MLflow undoes a filter of warnings."""

    def shown(message: Warning | str, *place: Any, **more: Any) -> None:
        if ADVICE not in str(message):
            show(message, *place, **more)

    return shown


warnings.showwarning = without_advice(warnings.showwarning)


class LastRun:
    """Hook: keeps the pipeline and the catalog, which the last words of a command describe."""

    def __init__(self) -> None:
        self.pipeline: Pipeline | None = None
        self.catalog: CatalogProtocol | None = None

    @hook_impl
    def before_pipeline_run(self, pipeline: Pipeline, catalog: CatalogProtocol) -> None:
        """Keep the pipeline and the catalog; let a command search for garbage from now on."""
        self.pipeline, self.catalog = pipeline, catalog
        if not gc.isenabled():
            gc.freeze()
            gc.set_threshold(100_000, 20, 20)
            gc.enable()


LAST_RUN = LastRun()


@click.group(context_settings=CONTEXT_SETTINGS, name=__file__)
def cli() -> None:
    """Commands of the project."""


def run_command(
    datasets: str | None, input_file: str | None, resume: bool, **options: Any
) -> dict[str, Any]:
    """Run the pipeline."""
    # torch, MLflow and scikit-learn make a million objects that live as long as the run. Searching
    # them for garbage takes seconds.
    gc.disable()
    atexit.register(gc.freeze)
    try:
        parameters = options["params"]
        if datasets is not None:
            parameters["datasets"] = "+".join(datasets.split(","))
        if input_file is not None:
            parameters["input"] = input_file
        if parameters.get("model") == "latest":
            parameters["model"] = newest_model(project_folder()).as_posix()
            click.echo(f"model=latest is {parameters['model']}")
        # Kedro takes a relative path from the project; a person types it from the working folder.
        for name in PATHS:
            path = parameters.get(name)
            if isinstance(path, str) and "://" not in path:
                parameters[name] = Path(path).expanduser().absolute().as_posix()
        # A parameter of the command alone: a resumed run has the parameters of the run it resumes.
        resume = resume or parameters.pop("resume", False)
        if options["pipeline"] is not None and not options["pipelines"]:
            # Kedro has deprecated `pipeline`.
            options |= {"pipelines": [options["pipeline"]], "pipeline": None}
        if resume not in (True, False):
            raise ParameterError(f"resume must be true or false, not {resume!r}")
        if resume:
            options["only_missing_outputs"] = resume_version(options)
        result = kedro_run.callback(**options)
        print_last_words()
        return result
    except FailedCellsError:
        print_last_words()
        raise
    except KeyboardInterrupt:
        close_tracking("KILLED")
        raise
    except Exception as error:
        close_tracking("FAILED")
        plain = plain_error(error)
        if plain is None:
            raise
        raise plain from None
    finally:
        gc.enable()


run = click.Command(
    "run",
    callback=run_command,
    params=[*kedro_run.params, *OPTIONS],
    help="Run the pipeline: kedro run --pipeline=conle. See docs/index.md.",
)
cli.add_command(run)


@cli.command("open")
def open_command() -> None:
    """Open the newest report or page of checks in the browser."""
    open_page(project_folder())


def project_folder() -> Path:
    """The folder of the project that the command is typed in."""
    return find_kedro_project(Path.cwd()) or Path.cwd()


def resume_version(options: dict[str, Any]) -> bool:
    """Take the version of the run to resume.

    Returns:
        Whether there is one; if not, a new run begins.
    """
    project = project_folder()
    loader = OmegaConfigLoader(
        conf_source=options["conf_source"] or str(project / settings.CONF_SOURCE),
        env=options["env"],
        runtime_params=options["params"],
        **settings.CONFIG_LOADER_ARGS,
    )
    artifacts = artifacts_folder(loader["globals"]["artifacts"], project)
    names = sorted(options["pipelines"] or ["__default__"])
    found = run_to_resume(artifacts, names, loader["parameters"])
    if found is None:
        click.echo("No run of this pipeline is unfinished: a new one begins.", err=True)
        return False
    SessionStore.resumed = found.version
    return True


def plain_error(error: BaseException | None) -> click.ClickException | None:
    """Find the error of a user, a disk or MLflow in a chain of errors.

    Args:
        error: the error that ended the run; its causes are searched too.

    Returns:
        A message without traceback; None if the program is at fault.
    """
    from mlflow.exceptions import MlflowException
    from safetensors import SafetensorError

    while error is not None:
        if isinstance(error, click.ClickException):
            return error
        # Errors of object stores have no `errno`.
        of_disk = isinstance(error, PermissionError) or type(error).__module__.startswith(
            "botocore"
        )
        of_disk |= isinstance(error, OSError) and error.errno in DISK_ERRORS
        if of_disk or (isinstance(error, SafetensorError) and "I/O error" in str(error)):
            return click.ClickException(f"A file cannot be written or read: {error}. {GO_ON}")
        if isinstance(error, YAMLError):
            return click.ClickException(f"the configuration cannot be read: {error}")
        if isinstance(error, MlflowException):
            return click.ClickException(f"MLflow has failed: {error}. {GO_ON}")
        error = error.__cause__
    return None


def close_tracking(status: str) -> None:
    """End the open MLflow runs; if MLflow itself fails, the next run closes them."""
    from mlflow.exceptions import MlflowException

    if tracking.parent_id() is None:
        return
    try:
        tracking.end(status)
    except MlflowException as error:
        click.echo(f"MLflow has failed ({error}): the next run closes this one there.", err=True)


def print_last_words() -> None:
    """Print the table of measures or checks, and where the results are."""
    from conle.reporting.console import print_results

    outputs = set() if LAST_RUN.pipeline is None else LAST_RUN.pipeline.all_outputs()
    if not outputs:
        return
    project = project_folder()
    link_latest(outputs, LAST_RUN.catalog, project)
    lines = []
    if tracking.parent_id() is not None:
        import mlflow

        address = short_uri(mlflow.get_tracking_uri(), project)
        lines += mlflow_lines(address, *tracking.page_of_run())
    print_results(outputs, LAST_RUN.catalog, project, lines)
