"""Cells that are made from the parameters in `conf/base`."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache

from commands import REPOSITORY
from kedro.config import OmegaConfigLoader

from conle.cells import make_cell
from conle.methods.registry import METHODS


@cache
def _configured():
    loader = OmegaConfigLoader(str(REPOSITORY / "conf"), env="base", base_env="base")
    return loader["parameters"]


def parameters_with(**changes):
    """The parameters in `conf/base`; a mapping updates a block, other values replace one."""
    parameters = deepcopy(_configured())
    for name, value in changes.items():
        if isinstance(value, Mapping):
            parameters[name].update(value)
        else:
            parameters[name] = value
    return parameters


def cell_of(method, hyperparameters=None, *, dataset="Toy", name=None, **changes):
    """A cell on the CPU, with some hyperparameters and other parameters changed."""
    block = {METHODS[method].parameters: {} if hyperparameters is None else hyperparameters}
    parameters = parameters_with(**{"device": "cpu", **block, **changes})
    return make_cell(parameters, dataset, method, name)
