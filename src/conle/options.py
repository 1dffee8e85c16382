"""The options of a run, checked once at its start.

The nodes of the pipelines depend on the parameters, but Kedro registers pipelines before it hands
out parameters. So a hook passes the parameters to `set_run_parameters` first.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import fsspec
from kedro.config import OmegaConfigLoader
from kedro.framework.project import settings
from kedro.utils import find_kedro_project
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FilePath,
    ValidationError,
    model_validator,
)

from conle.errors import ParameterError
from conle.known_datasets import KNOWN_DATASETS, PAPER_DATASETS, PUBLIC_DATASETS
from conle.methods.registry import METHODS, suggestion

logger = logging.getLogger(__name__)

# Words that stand for names of datasets.
PAPER, PUBLIC, PRESENT = "paper", "public", "present"
# The value of `method` that lets a comparison choose.
AUTO = "auto"
# Names that entries of the catalog begin with.
RESERVED = ("enhance", "report", "params")


def _split_names(datasets: Any) -> list[str]:
    """Names from a list, or from text such as A+B, because `--params` splits on commas."""
    if not isinstance(datasets, str | list):
        raise ValueError("names of datasets are expected, several joined by +")
    names = datasets.split("+") if isinstance(datasets, str) else datasets
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(name)):
            raise ValueError(
                f"{str(name)!r} is not the name of a dataset: letters, digits, _ and - only; "
                "several are joined by +"
            )
        if name in RESERVED:
            raise ValueError(f"{name!r} cannot name a dataset: the project uses it itself")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{', '.join(repeated)} is named more than once")
    return names


DatasetNames = Annotated[list[str], BeforeValidator(_split_names), Field(min_length=1)]


def _known_method(method: str) -> str:
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}{suggestion(method, METHODS)}")
    return method


def _known_method_or_auto(method: str) -> str:
    return method if method == AUTO else _known_method(method)


def _without_password(address: str) -> str:
    if urlsplit(address).password is not None:
        raise ValueError(
            "an address must not hold a password: parameters are tracked; put it into ~/.netrc"
        )
    return address


def _split(values: Any) -> Any:
    """Values from a list, or from text such as A+B, because `--params` splits on commas."""
    if isinstance(values, str):
        return values.split("+")
    return values if isinstance(values, list) else [values]


def _number(value: Any) -> Any:
    """A number from text; a whole number becomes an int."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() else float(value)
    return value


def _varied(parameter: str) -> str:
    if parameter in ("steps", "stopping"):
        raise ValueError("all settings have the same number of steps, which sensitivity.steps is")
    return parameter


class SensitivityOptions(BaseModel):
    """The grid of `--pipeline=sensitivity`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    datasets: DatasetNames
    parameters: Annotated[
        list[Annotated[str, AfterValidator(_varied)]], BeforeValidator(_split), Field(min_length=1)
    ]
    grid: Annotated[
        list[Annotated[int | float, BeforeValidator(_number)]],
        BeforeValidator(_split),
        Field(min_length=1),
    ]
    steps: Annotated[int, Field(ge=1)]


class ConvergenceOptions(BaseModel):
    """Options of `--pipeline=convergence`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    datasets: DatasetNames
    epochs: Annotated[int, Field(ge=1)]
    repeats: Annotated[int, Field(ge=1)]


class PredictiveOptions(BaseModel):
    """Options of `--pipeline=predictive`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: Annotated[
        list[Annotated[str, AfterValidator(_known_method)]], BeforeValidator(_split_names)
    ]
    without: Annotated[
        list[str], BeforeValidator(lambda names: _split_names(names) if names else [])
    ]
    repeats: Annotated[int, Field(ge=1)]
    l2: Annotated[float, Field(ge=0)]


def _candidate(given: Any) -> dict[str, Any]:
    """A candidate as a mapping; a text is the name of a method."""
    candidate = dict(given) if isinstance(given, Mapping) else {"method": given}
    if not isinstance(candidate.get("method"), str):
        raise ValueError("the name of a method is expected, or a mapping that has it as `method`")
    method = _known_method(candidate["method"])
    if fixed := sorted(METHODS[method].fixed.keys() & candidate.keys()):
        raise ValueError(f"{method} sets {' and '.join(fixed)} itself")
    return candidate


class EnhanceOptions(BaseModel):
    """What `method=auto` of `--pipeline=enhance` compares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidates: Annotated[
        list[Annotated[dict[str, Any], BeforeValidator(_candidate)]],
        BeforeValidator(_split),
        Field(min_length=1),
    ]
    folds: Annotated[int, Field(ge=2)]
    rows: Annotated[int, Field(ge=1)]
    degrees: Annotated[int, Field(ge=1)]


class RunOptions(BaseModel):
    """Options of the whole run."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    datasets: DatasetNames
    raw_dir: str
    # The range that scikit-learn takes for a seed.
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    repeats: Annotated[int, Field(ge=1)]
    folds: Annotated[int, Field(ge=2)]
    protocol: Literal["cross_validation", "transductive"]
    threshold: Annotated[float, Field(gt=0, lt=1)]
    device: str
    resume: bool
    threads: Annotated[int, Field(ge=1)] | None
    degree_floors: dict[str, Annotated[float, Field(ge=0)]]
    sensitivity: SensitivityOptions
    convergence: ConvergenceOptions
    predictive: PredictiveOptions
    fetch_from: Annotated[str, AfterValidator(_without_password)] | None
    input: str | None
    method: Annotated[str, AfterValidator(_known_method_or_auto)]
    enhance: EnhanceOptions
    model: str | None
    # MLflow refuses other names.
    registered_model: Annotated[str, Field(pattern=r"^[^/:]+$")]

    @model_validator(mode="after")
    def _names_of_datasets(self) -> "RunOptions":
        """Refuse a name that is close to a known one.

        Other unknown names pass: a configuration may name a user's own dataset, also in runs
        without it.
        """
        known = {*KNOWN_DATASETS, *self.datasets, "Artificial"}
        named = {"degree_floors": self.degree_floors, "predictive.without": self.predictive.without}
        for option, names in named.items():
            for name in names:
                if name not in known and get_close_matches(name, known, n=1, cutoff=0.8):
                    raise ValueError(
                        f"{option} names {name}, which is no known dataset and none of this run"
                        f"{suggestion(name, known)}"
                    )
        return self

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> "RunOptions":
        """Check the parameters of a run.

        Raises:
            ParameterError: names every parameter that is missing or wrong, and why.
        """
        with _named_problems("These parameters cannot be used"):
            return cls.model_validate(dict(parameters))


class TLSOptions(BaseModel):
    """PEM files of a connection to a scheduler."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca_file: FilePath
    cert: FilePath
    key: FilePath


class ClusterOptions(BaseModel):
    """Options of the cluster, as in `conf/base/dask.yml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str | None = None
    workers: Annotated[int, Field(ge=1)] | None = None
    tls: TLSOptions | None = None
    resources: dict[str, dict[str, Annotated[float, Field(gt=0)]]] = {}
    patience: Annotated[float, Field(gt=0)] = 60

    @model_validator(mode="after")
    def _encrypted_or_not(self) -> "ClusterOptions":
        if (self.address or "").startswith("tls://") != (self.tls is not None):
            raise ValueError("tls is for an address that begins with tls://, which needs it")
        return self

    @classmethod
    def from_configuration(cls, configured: Mapping[str, Any]) -> "ClusterOptions":
        """Check the options of a cluster.

        Raises:
            ParameterError: names every option that is wrong, and why.
        """
        with _named_problems("These options in dask.yml cannot be used"):
            return cls.model_validate(dict(configured))


@contextmanager
def _named_problems(title: str) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        problems = []
        for problem in error.errors():
            text = problem["msg"].removeprefix("Value error, ")
            # A problem of several options has no location, and its input holds all of them.
            if problem["loc"]:
                text = f"{'.'.join(map(str, problem['loc']))}: {text}"
                if problem["type"] != "missing":
                    text += f" (given: {problem['input']!r})"
            problems.append(f"  {text}")
        raise ParameterError(f"{title}:\n" + "\n".join(problems)) from None


_run_parameters: tuple[Mapping[str, Any], Path] | None = None
_cluster_options = ClusterOptions()


def set_run_parameters(parameters: Mapping[str, Any] | None, project_path: Path) -> None:
    """Keep the parameters of the session for the registration of its pipelines."""
    global _run_parameters
    _run_parameters = None if parameters is None else (parameters, project_path)


def set_cluster_options(options: ClusterOptions) -> None:
    """Keep the options of the cluster, because Kedro makes the runner without them."""
    global _cluster_options
    _cluster_options = options


def cluster_options() -> ClusterOptions:
    """The options of the session's cluster."""
    return _cluster_options


def run_threads() -> int | None:
    """Threads that a method uses; None leaves the number to the libraries."""
    return None if _run_parameters is None else _run_parameters[0]["threads"]


def run_parameters() -> Mapping[str, Any]:
    """All parameters of the session; without a session, those of the configuration."""
    return (_run_parameters or _configured_parameters())[0]


def run_options() -> RunOptions:
    """The options of the run, with the names of all datasets.

    `paper` and `public` are replaced by the names of their datasets, `present` by those of both
    whose files exist.

    Raises:
        ParameterError: the parameters are wrong, or no file of a known dataset exists.
    """
    parameters, project_path = _run_parameters or _configured_parameters()
    options = RunOptions.from_parameters(parameters)
    groups = {PAPER: PAPER_DATASETS, PUBLIC: PUBLIC_DATASETS}
    if PRESENT in options.datasets:
        groups[PRESENT] = _present_datasets(options.raw_dir, project_path)
    # Groups overlap: each name is taken once.
    names = dict.fromkeys(name for given in options.datasets for name in groups.get(given, [given]))
    return options.model_copy(update={"datasets": list(names)})


def _present_datasets(raw_dir: str, project_path: Path) -> list[str]:
    """The known datasets whose files exist."""
    files, folder = fsspec.url_to_fs(raw_dir if "://" in raw_dir else str(project_path / raw_dir))
    present = [name for name in KNOWN_DATASETS if files.isfile(f"{folder}/{name}.mat")]
    if not present:
        raise ParameterError(f"None of the known datasets is in {raw_dir}")
    absent = [name for name in KNOWN_DATASETS if name not in present]
    if absent:
        logger.warning("Not in %s, left out: %s", raw_dir, ", ".join(absent))
    return present


def _configured_parameters() -> tuple[Mapping[str, Any], Path]:
    """The parameters in the configuration, for commands without a session (`kedro viz`)."""
    project_path = find_kedro_project(Path.cwd()) or Path.cwd()
    loader = OmegaConfigLoader(
        conf_source=str(project_path / settings.CONF_SOURCE),
        env=os.environ.get("KEDRO_ENV"),
        **settings.CONFIG_LOADER_ARGS,
    )
    return loader["parameters"], project_path
