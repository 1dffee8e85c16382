"""The pipelines: `pipeline.py` wires names, `nodes.py` holds the functions."""

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from conle.methods.registry import METHODS


def for_cell(function: Callable, **names: Any) -> Callable:
    """A node's function with the names of its dataset and method filled in.

    It keeps the function's own name, which Kedro shows in logs and pictures.
    """
    return update_wrapper(partial(function, **names), function)


def around(wrapper: Callable, function: Callable, **bound: Any) -> Callable:
    """A wrapper that takes a node's function as an argument of its own.

    Its inputs are not the function's, but Kedro is to show the function's name.
    """
    wrapped = partial(wrapper, function=function, **bound)
    # Kedro looks for annotations.
    wrapped.__name__, wrapped.__annotations__ = function.__name__, {}
    return wrapped


def resource_tags(method: str) -> list[str]:
    """Tags of a node that runs a method, by which a runner can find it a fitting machine."""
    resource = METHODS[method].resource
    return [] if resource is None else [resource]
