"""Cells of the benchmark: a dataset, a method and its hyperparameters."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, update_wrapper, wraps
from typing import Any

import click

from conle.errors import ParameterError
from conle.methods.contract import DivergenceError, LabelEnhancer, NotApplicableError
from conle.methods.registry import METHODS, RUN_SETTINGS, make_enhancer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cell:
    """A dataset and a method with fixed hyperparameters.

    Attributes:
        name: names the artifacts of the cell; the method unless hyperparameters are varied.
        method: name in the registry.
        block: the hyperparameters that are set, by name.
        settings: the run's threshold, device and seed, and the dataset's degree floor.
    """

    dataset: str
    name: str
    method: str
    block: Mapping[str, Any] = field(repr=False)
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def namespace(self) -> str:
        """Namespace of the nodes and artifacts."""
        return f"{self.dataset}.{self.name}"

    @property
    def title(self) -> str:
        """Name of the cell in messages."""
        return f"{self.dataset} {self.name}"

    @property
    def block_name(self) -> str:
        """Name of the method's block of parameters."""
        return METHODS[self.method].parameters

    @property
    def tags(self) -> list[str]:
        """Tags of a node that runs the method; a runner chooses a machine by the resource tag."""
        resource = METHODS[self.method].resource
        return ["method", self.dataset, self.name, *([resource] if resource else [])]

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """All hyperparameters as they take effect; the enhancer checks them."""
        defaults = METHODS[self.method].enhancer_class().get_params()
        given = {**self.settings, **self.block}
        return {name: given.get(name, default) for name, default in defaults.items()}

    def make_enhancer(self, **overrides: Any) -> LabelEnhancer:
        """The unfitted enhancer.

        Args:
            overrides: hyperparameters that take precedence.

        Raises:
            ParameterError: a hyperparameter is unknown or out of its range.
        """
        block = {**self.block, **overrides} if overrides else self.block
        try:
            return make_enhancer(self.method, block, **self.settings)
        except ValueError as error:
            raise ParameterError(str(error)) from None


def make_cell(
    parameters: Mapping[str, Any],
    dataset: str,
    method: str,
    name: str | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Cell:
    """Make the cell of a dataset and a method from the run's parameters.

    Args:
        parameters: all parameters of the run.
        dataset: also looked up in the parameter `degree_floors`.
        method: name in the registry.
        name: names the artifacts; the method by default.
        overrides: hyperparameters that take precedence over the method's block.

    Raises:
        ParameterError: the method has no block.
    """
    block_name = METHODS[method].parameters
    if block_name not in parameters:
        raise ParameterError(
            f"{method} has no block of hyperparameters: add {block_name!r} to a parameters_*.yml "
            "of conf/base, {} if the class has none"
        )
    block = parameters[block_name]
    # make_enhancer refuses a block that is no mapping, and its message shows the value.
    if isinstance(block, Mapping):
        block = {**block, **(overrides or {}), **METHODS[method].fixed}
    settings = {setting: parameters[setting] for setting in RUN_SETTINGS}
    settings["degree_floor"] = parameters["degree_floors"].get(dataset, 0.0)
    return Cell(dataset, name or method, method, block, settings)


class CellFunction(partial):
    """A function of a node that is bound to a cell."""

    @property
    def cell(self) -> Cell:
        """The cell that is bound to the function."""
        return self.keywords["cell"]

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the function; each of its warnings goes to the log once, with the cell's title."""
        # The title names the method, as the warnings of a method do.
        prefix = f"{METHODS[self.cell.method].class_name}: "
        logged = set()

        def log(message: Warning | str, *_: Any, **__: Any) -> None:
            text = str(message).removeprefix(prefix)
            if text not in logged:
                logged.add(text)
                logger.warning("%s: %s", self.cell.title, text)

        with warnings.catch_warnings():
            warnings.showwarning = log
            return super().__call__(*inputs, **named)


def bind(function: Callable, **values: Any) -> Callable:
    """Bind arguments of a node's function; Kedro shows the function's own name."""
    kind = CellFunction if "cell" in values else partial
    return update_wrapper(kind(function, **values), function)


def on_failure(empty: Callable[..., Any]) -> Callable[[Callable], Callable]:
    """Decorate a function of a cell: if it fails, its outputs are empty and other cells go on.

    Args:
        empty: takes the function's arguments and `failure`, the reason; returns its outputs without
            rows.
    """

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def attempt(*inputs: Any, cell: Cell, **bound: Any) -> Any:
            try:
                with failures_as_parameter_errors():
                    return function(*inputs, cell=cell, **bound)
            except Exception as error:
                # A user's mistake needs no traceback.
                plain = isinstance(error, click.ClickException)
                failure = str(error) if plain else f"{type(error).__name__}: {error}"
                logger.error(
                    "%s failed, the others go on: %s", cell.title, failure, exc_info=not plain
                )
                return empty(*inputs, cell=cell, failure=failure, **bound)

        attempt.empty = empty
        return attempt

    return decorate


@contextmanager
def failures_as_parameter_errors() -> Iterator[None]:
    """Turn diverged training, and labels that a method cannot use, into a `ParameterError`.

    Raises:
        ParameterError: the method has failed; the message is that of its error.
    """
    try:
        yield
    except (DivergenceError, NotApplicableError) as error:
        raise ParameterError(str(error)) from error
