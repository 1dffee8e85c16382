import inspect
import pickle
import re
from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from conle.core.hyperparameters import Hyperparameters, PositiveFloat, PositiveInt


class Base(Hyperparameters):
    rate: PositiveFloat = 0.1
    """Rate."""
    kind: Literal["fast", "slow"] = "fast"
    """Kind."""


class Estimator(Base):
    steps: PositiveInt | None = None
    """Steps."""
    share: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Share."""
    rate: PositiveFloat = 2.0
    """Rate, by another default."""


def test_fields_are_the_arguments():
    assert Estimator.hyperparameter_names() == ["rate", "kind", "steps", "share"]
    assert Estimator(steps=3).get_params() == {
        "rate": 2.0,
        "kind": "fast",
        "steps": 3,
        "share": 0.5,
    }
    signature = inspect.signature(Estimator)
    assert signature.parameters["rate"].annotation is float
    assert {parameter.kind for parameter in signature.parameters.values()} == {
        inspect.Parameter.KEYWORD_ONLY
    }
    with pytest.raises(TypeError, match="unexpected keyword argument 'stepss'"):
        Estimator(stepss=3)


def test_an_estimator_of_scikit_learn():
    estimator = Estimator(steps=3)
    assert repr(estimator) == "Estimator(steps=3)"
    for copy in (clone(estimator), pickle.loads(pickle.dumps(estimator))):
        assert copy is not estimator
        assert copy.get_params() == estimator.get_params()
    assert estimator != clone(estimator)
    assert estimator.set_params(rate=5).rate == 5


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 0}, "Estimator: rate must be greater than 0, not 0"),
        ({"rate": "1"}, "Estimator: rate must be a valid number, not '1'"),
        (
            {"rate": np.float64("nan")},
            "Estimator: rate must be greater than 0, not np.float64(nan)",
        ),
        ({"steps": True}, "Estimator: steps must be a valid integer, not True"),
        ({"steps": np.int64(0)}, "Estimator: steps must be greater than 0, not np.int64(0)"),
        ({"kind": "other"}, "Estimator: kind must be 'fast' or 'slow', not 'other'"),
        (
            {"kind": None, "share": 1},
            "Estimator: kind must be 'fast' or 'slow', not None; share must be less than 1, not 1",
        ),
    ],
)
def test_wrong_values_are_stored_and_refused_when_checked(values, message):
    estimator = Estimator(**values)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        estimator.check_hyperparameters()


def test_numbers_of_numpy_are_numbers():
    for values in ParameterGrid({"steps": np.arange(1, 3), "rate": np.float32([0.5, 2])}):
        Estimator(**values).check_hyperparameters()
    Estimator(rate=1, steps=None).check_hyperparameters()
