"""Nodes that take over what an earlier, broken run has made of the same inputs."""

import hashlib
import json
import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, update_wrapper
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click
import pandas as pd
from kedro.pipeline import Node

from conle.errors import FailedCellsError
from conle.pipelines import around
from conle.pipelines.threads import limited_threads

logger = logging.getLogger(__name__)

# Their versions decide on the last bits of a result.
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pandas")


def resumable(
    function: Callable,
    inputs: Sequence[str],
    outputs: Sequence[str],
    name: str,
    namespace: str,
    tags: Sequence[str],
    *,
    instead: Callable[..., tuple] | None = None,
    **bound: Any,
) -> Node:
    """A node that does not do again what an earlier run has done, if the run is to be resumed.

    It writes, as its last output, `<namespace>.<name>_key`: digests of the function, of everything
    that it was given, of the package's code and of what it ran on.

    Args:
        function: of the node.
        inputs: of the node.
        outputs: of the node, in the namespace.
        name: of the node.
        namespace: of the node.
        tags: of the node.
        instead: makes the outputs of a function that has failed, so that other nodes go on; by
            default a failure ends the run.
        bound: further arguments of the function, by name.
    """
    return Node(
        around(keep_or_make, function, outputs=tuple(outputs), instead=instead, **bound),
        inputs=[*inputs, "params:threads", "params:resume", f"{namespace}.{name}_kept"],
        outputs=[*(f"{namespace}.{output}" for output in outputs), f"{namespace}.{name}_key"],
        name=name,
        namespace=namespace,
        tags=list(tags),
    )


def keep_or_make(
    *inputs: Any,
    function: Callable,
    outputs: Sequence[str],
    instead: Callable[..., tuple] | None,
    **bound: Any,
) -> tuple:
    """What an earlier run has made of the same inputs, or else what the function makes of them.

    Args:
        inputs: of the function; then the number of threads (None for all cores), whether to look
            for earlier results, and these.
        function: of the node.
        outputs: names of what it returns.
        instead: makes the outputs if the function has failed.
        bound: further arguments of the function.

    Returns:
        The outputs, and a description: the key, the version the outputs were taken from if they
        were, and the failure if there was one.
    """
    *own, threads, resume, kept = inputs
    key = content_key(function, own, bound, threads)
    described = {"key": key, "taken_from": None, "failure": None}
    found = kept.find(key, outputs) if resume else None
    if found is not None:
        taken_from, made = found
        logger.info("Taken from the run of %s", taken_from)
        return *made, described | {"taken_from": taken_from}
    try:
        with limited_threads(threads):
            made = function(*own, **bound)
    except Exception as error:
        if instead is None:
            raise
        # A user's mistake is said; of anything else the place is of use.
        plain = isinstance(error, click.ClickException)
        failure = str(error) if plain else f"{type(error).__name__}: {error}"
        logger.error("Failed; the others go on. %s", failure, exc_info=not plain)
        # Without a key: what has failed is tried again.
        described |= {"key": None, "failure": failure}
        return *instead(*own, failure=failure, **bound), described
    return *(made if len(outputs) > 1 else (made,)), described


def content_key(
    function: Callable, inputs: Sequence[Any], bound: Mapping[str, Any], threads: int | None
) -> dict[str, Any]:
    """Digests of all that the results of a function depend on."""
    return {
        "function": f"{function.__module__}.{function.__qualname__}",
        "inputs": [_digest(value) for value in inputs],
        "bound": _digest(dict(bound)),
        **made_with(),
        "machine": f"{platform.machine()} {platform.processor()}",
        "gpu": _gpu(),
        "threads": threads or _threads(),
    }


def made_with() -> dict[str, str]:
    """A digest of the package's code, and the versions of the packages that results depend on."""
    return {"code": _digest_of_code(), **{package: version(package) for package in PACKAGES}}


def failing(node: Node, failure: str) -> Node | None:
    """The node with a function that has failed; None for one whose failure ends the run.

    Args:
        node: of a pipeline.
        failure: why it cannot be run.
    """
    keywords = getattr(node.func, "keywords", {})
    if keywords.get("instead") is None:
        return None
    function = update_wrapper(partial(_fail, failure), keywords["function"])
    return node._copy(func=around(keep_or_make, **{**keywords, "function": function}))


def _fail(failure: str, *_: Any, **__: Any) -> NoReturn:
    raise FailedCellsError(failure)


def _digest(value: Any) -> str:
    if isinstance(value, pd.DataFrame):
        head = json.dumps([list(value.columns), [str(kind) for kind in value.dtypes]])
        content = head.encode() + pd.util.hash_pandas_object(value).to_numpy().tobytes()
    else:
        content = json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


@cache
def _threads() -> int:
    """As many as there are cores, or as the environment allows."""
    import torch

    return torch.get_num_threads()


@cache
def _gpu() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


@cache
def _digest_of_code() -> str:
    package = Path(__file__).parents[1]
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(package.rglob("*.py")):
        content.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return content.hexdigest()
