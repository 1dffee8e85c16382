"""An enhancer fitted to somebody's own data, with everything that new rows need."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin

from conle.errors import DataError
from conle.methods.contract import LARGEST_FEATURE, InductiveEnhancer


@dataclass(frozen=True)
class FittedModel:
    """A fitted enhancer and how its features are encoded.

    Attributes:
        method: its name in the registry.
        enhancer: fitted to encoded features.
        encoder: a column transformer, fitted to the features as they came.
        labels: names of the labels, in the order of the distributions.
    """

    method: str
    enhancer: InductiveEnhancer
    encoder: TransformerMixin
    labels: list[str]

    def enhance(self, features: pd.DataFrame, logical_labels: pd.DataFrame) -> pd.DataFrame:
        """Recover the distributions of new rows.

        Args:
            features: with the columns of those that the model was fitted to, in any order.
            logical_labels: with the columns `labels`, 0 or 1.

        Returns:
            Distributions with the index of the logical labels, one column per label.

        Raises:
            DataError: a column is missing, or has text where there were numbers.
        """
        for what, wanted, given in (
            ("features", list(self.encoder.feature_names_in_), features.columns),
            ("labels", self.labels, logical_labels.columns),
        ):
            absent = [name for name in wanted if name not in given]
            if absent:
                raise DataError(
                    f"the model was fitted with {what} that are not here: {', '.join(absent)}"
                )
        numbers = self.encoder.transformers_[0][2]
        encoded = self.encoder.transform(
            encodable(features[list(self.encoder.feature_names_in_)], numbers)
        )
        return self.enhancer.transform(encoded, logical_labels[self.labels])

    def unseen_values(self, features: pd.DataFrame) -> dict[str, list[str]]:
        """By feature that is no number, the values that the model was not fitted to."""
        _, encoding, names = self.encoder.transformers_[1]
        if not len(names):
            return {}
        known = dict(zip(names, encoding[-1].categories_, strict=True))
        unseen = {
            name: sorted(set(features[name].dropna().map(str)) - set(known[name]))
            for name in names
            if name in features
        }
        return {name: values for name, values in unseen.items() if values}


def encodable(features: pd.DataFrame, numbers: Sequence[str]) -> pd.DataFrame:
    """Floats and texts, NaN where a value is missing, whatever types pandas has for them.

    Args:
        features: as they came.
        numbers: the columns that are numbers; the others become texts.

    Raises:
        DataError: a column of numbers has text, infinity or what is too large in it.
    """
    columns = {}
    for name, column in features.items():
        if name not in numbers:
            columns[name] = (
                column.astype(object).map(str, na_action="ignore").where(column.notna(), np.nan)
            )
            continue
        try:
            if column.dtype == object:
                column = column.map(float, na_action="ignore")
            values = pd.to_numeric(column).astype("Float64").to_numpy(float, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise DataError(f"feature {name!r} must be numbers: {error}") from None
        if np.isinf(values).any():
            row = int(np.isinf(values).argmax())
            raise DataError(f"feature {name!r} is infinite in row {row}")
        too_large = np.abs(values) > LARGEST_FEATURE
        if too_large.any():
            row = int(too_large.argmax())
            raise DataError(
                f"feature {name!r} is {values[row]:g} in row {row}; it must lie within "
                f"{LARGEST_FEATURE:g} of 0"
            )
        columns[name] = values
    return pd.DataFrame(columns, index=features.index)
