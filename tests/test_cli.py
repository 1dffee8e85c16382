import atexit
import errno
import gc
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner
from kedro.io import DataCatalog, DatasetError
from kedro.pipeline import Pipeline
from mlflow.exceptions import MlflowException
from safetensors import SafetensorError

from conle import cli, run
from conle.cli import plain_error
from conle.errors import DataError, FailedCellsError
from conle.messages import short_uri, without_password
from conle.run import SessionStore
from conle.tracking import PARENT


def wrapped(error):
    """Wrap an error in the way in which Kedro wraps an error of a dataset."""
    outer = DatasetError("Failed while saving data")
    outer.__cause__ = error
    return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DataError("row 3"), "row 3"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "a.csv"), "Permission denied: 'a.csv'"),
        # An error of S3 has no errno.
        (PermissionError("Access Denied"), "Access Denied"),
        (EndpointConnectionError(endpoint_url="http://x"), "connect to the endpoint URL"),
        (SafetensorError("I/O error: No space left"), "No space left"),
        (MlflowException("API request failed"), "MLflow has failed: API request failed"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda error: error, wrapped])
def test_errors_that_are_shown_without_their_place(error, message, wrap):
    plain = plain_error(wrap(error))
    assert isinstance(plain, click.ClickException)
    assert message in plain.message


@pytest.mark.parametrize(
    "error", [ValueError("x"), FileNotFoundError(errno.ENOENT, "x"), SafetensorError("header")]
)
def test_errors_of_the_program_are_left(error):
    assert plain_error(wrapped(error)) is None


def test_addresses_are_shown_without_a_password(tmp_path):
    assert without_password("https://me:secret@host:5000/x") == "https://host:5000/x"
    assert without_password("sqlite:////a/b@c/mlflow.db") == "sqlite:////a/b@c/mlflow.db"
    assert short_uri(f"sqlite:///{tmp_path}/mlflow.db?timeout=60", tmp_path) == (
        "sqlite:///mlflow.db"
    )
    assert short_uri("https://me:secret@host/x?y", tmp_path) == "https://host/x?y"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:secret@host:5000/", ["MLflow    to {}:", "  http://host:5000"]),
        (
            "sqlite:////a/mlflow.db?timeout=60",
            [
                "MLflow    to {}: mlflow ui --backend-store-uri sqlite:////a/mlflow.db",
                "  http://127.0.0.1:5000",
            ],
        ),
    ],
)
@pytest.mark.parametrize(
    ("page", "compares", "what"),
    [("/#/view", True, "compare methods"), ("/#/run", False, "see the run")],
)
def test_the_last_words_say_where_a_run_is_in_mlflow(
    monkeypatch, tracked_at, address, shown, page, compares, what
):
    said = []
    monkeypatch.setattr(cli.LAST_RUN, "pipeline", SimpleNamespace(all_outputs=lambda: {"scores"}))
    monkeypatch.setattr(cli, "link_latest", lambda *_: None)
    monkeypatch.setattr("conle.tracking.page_of_run", lambda: (page, compares))
    monkeypatch.setattr("conle.reporting.console.print_results", lambda *own: said.extend(own[-1]))
    monkeypatch.setenv(PARENT, "r1")
    tracked_at(address)
    cli.print_last_words()
    assert said == [shown[0].format(what), shown[1] + page]


@pytest.fixture
def command(monkeypatch):
    """Runs the command; `given` are the options that Kedro's own gets, which may raise."""
    calls = SimpleNamespace(given=None, closed=[], last_words=0, raises=None, searches=[], frozen=0)

    def kedro_run(**options):
        calls.given = options
        calls.searches.append(gc.isenabled())
        cli.LastRun().before_pipeline_run(Pipeline([]), DataCatalog())
        calls.searches.append(gc.isenabled())
        if calls.raises is not None:
            raise calls.raises
        return "done"

    def last_words():
        calls.last_words += 1

    monkeypatch.setattr(
        cli, "kedro_run", SimpleNamespace(callback=kedro_run, params=cli.kedro_run.params)
    )
    monkeypatch.setattr(cli, "print_last_words", last_words)
    monkeypatch.setattr(cli, "close_tracking", calls.closed.append)
    monkeypatch.setattr(cli, "resume_version", lambda options: True)

    def freeze():
        calls.frozen += 1

    # The process of the tests must not freeze its objects.
    monkeypatch.setattr(gc, "freeze", freeze)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(atexit, "register", lambda _: None)
    calls.run = lambda *arguments: CliRunner().invoke(cli.run, arguments)
    return calls


def test_all_options_of_kedro_are_there():
    options = {option for parameter in cli.run.params for option in parameter.opts}
    assert {"--pipeline", "--pipelines", "--runner", "--tags", "--params", "--env"} <= options
    assert {"--datasets", "--input", "--resume"} <= options


@pytest.mark.parametrize(
    ("arguments", "parameters", "resumes"),
    [
        ([], {}, False),
        (["--datasets=One,Two"], {"datasets": "One+Two"}, False),
        # Paths are relative to the working folder, addresses are not.
        (
            ["--input=my.csv", "--params=model=../m,labels_xml=/a.xml,raw_dir=s3://b/raw"],
            {
                "input": (Path.cwd() / "my.csv").as_posix(),
                "model": (Path.cwd() / "../m").as_posix(),
                "labels_xml": "/a.xml",
                "raw_dir": "s3://b/raw",
            },
            False,
        ),
        (["--resume"], {}, True),
        # The parameters of a resumed run are those of the run that it resumes.
        (["--params=resume=true,seed=3"], {"seed": 3}, True),
        (
            ["--datasets=One", "--params=datasets=Two,conle.steps=20"],
            {"datasets": "One", "conle": {"steps": 20}},
            False,
        ),
    ],
)
def test_options_of_the_project_become_parameters(command, arguments, parameters, resumes):
    result = command.run("--pipeline=conle", *arguments)
    assert result.exit_code == 0, result.output
    assert command.given["params"] == parameters
    assert command.given["pipelines"] == ["conle"]
    assert command.given["only_missing_outputs"] is resumes
    assert not {"datasets", "input_file", "resume"} & set(command.given)
    assert command.last_words == 1
    assert command.closed == []


@pytest.mark.parametrize(
    ("error", "closed", "last_words"),
    [
        # The hooks have closed all MLflow runs, and the other cells are done.
        (FailedCellsError("1 of 2 cells have failed"), [], 1),
        (DataError("row 3"), ["FAILED"], 0),
        (wrapped(OSError(errno.ENOSPC, "No space left on device")), ["FAILED"], 0),
        (ValueError("at fault"), ["FAILED"], 0),
        (KeyboardInterrupt(), ["KILLED"], 0),
    ],
)
def test_how_a_command_ends(command, error, closed, last_words):
    command.raises = error
    result = command.run("--pipeline=conle")
    assert result.exit_code == 1
    assert (command.closed, command.last_words) == (closed, last_words)
    if isinstance(error, ValueError | KeyboardInterrupt) and not isinstance(error, DataError):
        assert "Error: " not in result.output
    else:
        assert "Error: " in result.output
        assert isinstance(result.exception, SystemExit)


def test_a_command_searches_for_garbage_from_its_first_node_on(command):
    command.run("--pipeline=conle")
    assert (command.searches, command.frozen) == ([False, True], 1)
    cli.LastRun().before_pipeline_run(Pipeline([]), DataCatalog())
    assert command.frozen == 1
    # A command that fails before any node leaves the search on.
    command.run("--params=resume=maybe")
    assert gc.isenabled()


def test_settings_import_little():
    """Every kedro command imports them."""
    command = (
        "import sys, conle.settings\n"
        "assert not {'matplotlib', 'mlflow', 'pandas', 'sklearn', 'torch'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", command], check=True)


def test_resume_is_true_or_false(command):
    result = command.run("--pipeline=conle", "--params=resume=maybe")
    assert result.exit_code == 1
    assert "Error: resume must be true or false, not 'maybe'" in result.output


def test_the_version_to_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("base", "local"):
        (tmp_path / "conf" / name).mkdir(parents=True)
    (tmp_path / "conf" / "base" / "globals.yml").write_text("artifacts: elsewhere\n")
    (tmp_path / "conf" / "base" / "parameters.yml").write_text("datasets: [A]\n")
    options = {"conf_source": None, "env": None, "params": {}, "pipelines": ["conle"]}
    assert cli.resume_version(options) is False
    assert SessionStore.resumed is None
    assert "No run of this pipeline is unfinished: a new one begins." in capsys.readouterr().err
    dead = f"{platform.node()}_{2**22 + 1}_1.00"
    artifacts = str(tmp_path / "elsewhere")
    run.begin(
        artifacts,
        "v1",
        {"pipelines": ["conle"], "parameters": {"datasets": ["A"]}, "process": dead},
    )
    monkeypatch.setattr(SessionStore, "resumed", None)
    assert cli.resume_version(options) is True
    assert SessionStore.resumed == "v1"
    assert capsys.readouterr().err == ""
    assert cli.resume_version(options | {"pipelines": None}) is False
    run.end(artifacts, "v1", {})
    assert cli.resume_version(options) is False


def test_all_warnings_are_shown_but_the_advice_to_writers_of_models():
    shown = []
    show = cli.without_advice(lambda message, *_: shown.append(str(message)))
    for text in (f"\x1b[33m{cli.ADVICE} to enable", "another"):
        show(UserWarning(text), UserWarning, "file.py", 1)
    assert shown == ["another"]
