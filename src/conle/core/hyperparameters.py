"""Hyperparameters as fields: each is declared once, with its type, bound, default and meaning.

>>> class Ridge(Hyperparameters):
...     penalty: PositiveFloat = 1.0
...     '''Weight of the squared coefficients.'''
>>> Ridge(penalty=0)
Ridge(penalty=0)
>>> Ridge(penalty=0).check_hyperparameters()
Traceback (most recent call last):
    ...
ValueError: Ridge: penalty must be greater than 0, not 0
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, dataclass_transform, get_type_hints, no_type_check

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    create_model,
)
from sklearn.base import BaseEstimator

__all__ = [
    "Hyperparameters",
    "NonNegativeFloat",
    "NonNegativeInt",
    "PositiveFloat",
    "PositiveInt",
    "Share",
    "Threshold",
]

Share = Annotated[float, Field(ge=0, lt=1)]
Threshold = Annotated[float, Field(gt=0, lt=1)]


@dataclass_transform(kw_only_default=True, eq_default=False)
class Hyperparameters(BaseEstimator):
    """Base of estimators whose hyperparameters are the annotated fields of the class.

    A subclass gets an `__init__` that takes the fields as keyword arguments and stores them, as
    scikit-learn asks; `clone`, `get_params` and `set_params` work. Types are pydantic's.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Turn the annotated fields into the arguments of `__init__`."""
        super().__init_subclass__(**options)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        # The annotations leave out the bounds, so that the signature shown by `help` is short.
        hints = get_type_hints(cls)
        cls.__init__.__annotations__ = {field.name: hints[field.name] for field in fields(cls)}
        # scikit-learn asks `__init__` to store any value; values are checked in `fit`.
        no_type_check(cls.__init__)

    @classmethod
    def hyperparameter_names(cls) -> list[str]:
        """The hyperparameters in the order in which they are declared."""
        return [field.name for field in fields(cls)]

    def check_hyperparameters(self) -> None:
        """Check types and bounds of all hyperparameters.

        Raises:
            ValueError: names the wrong hyperparameter, the rule it breaks, and its value.
        """
        given = {name: getattr(self, name) for name in self.hyperparameter_names()}
        # Parameter grids may hold NumPy's numbers, but pydantic accepts only Python's.
        values = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in given.items()
        }
        try:
            _model(type(self)).model_validate(values)
        except ValidationError as error:
            wrong = [
                f"{problem['loc'][0]} {problem['msg'].replace('Input should', 'must', 1)}, "
                f"not {given[problem['loc'][0]]!r}"
                for problem in error.errors()
            ]
            raise ValueError(f"{type(self).__name__}: {'; '.join(wrong)}") from None


@cache
def _model(estimator: type[Hyperparameters]) -> type[BaseModel]:
    """The pydantic model of an estimator's fields."""
    hints = get_type_hints(estimator, include_extras=True)
    return create_model(
        estimator.__name__,
        __config__=ConfigDict(strict=True),
        **{field.name: (hints[field.name], ...) for field in fields(estimator)},
    )
