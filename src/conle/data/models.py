"""Fitted models, and the folders that hold them: JSON, safetensors and skops.

A model holds everything that the enhancement of new rows needs.
"""

import json
import shutil
from dataclasses import dataclass
from glob import glob
from os.path import isdir
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
from kedro.io import AbstractVersionedDataset, DatasetError, Version
from sklearn.base import TransformerMixin

from conle import kedro_internals
from conle.data.atomic import partial_name
from conle.data.memory import refuse_beyond_memory
from conle.errors import DataError, RawFileError
from conle.methods.contract import LARGEST_FEATURE, LabelEnhancer
from conle.methods.registry import make_enhancer

CONFIGURATION, WEIGHTS, ENCODER = "model.json", "weights.safetensors", "encoder.skops"
# Types in an encoder that are not scikit-learn's own.
TRUSTED = ("numpy.dtype",)
# Texts that are encoded at once: the encoder copies them several times.
TEXTS_AT_ONCE = 200_000


@dataclass(frozen=True)
class FittedModel:
    """A fitted enhancer and the encoder of its features.

    Attributes:
        method: its name in the registry.
        enhancer: fitted to encoded features.
        encoder: a column transformer that is fitted to the features before encoding.
        labels: names of the labels, in the order of the distributions.
        comparison: the methods that were compared (`conle.core.selection.compare`); None if the
            method was named.
    """

    method: str
    enhancer: LabelEnhancer
    encoder: TransformerMixin
    labels: list[str]
    comparison: pd.DataFrame | None = None

    @property
    def kept_reading(self) -> str | None:
        """The reading that adaptive ConLE has kept; None for other methods."""
        return getattr(self.enhancer, "kept_reading_", None)

    def enhance(self, features: pd.DataFrame, logical_labels: pd.DataFrame) -> pd.DataFrame:
        """Recover the distributions of new rows.

        Args:
            features: has the columns that the model was fitted to, in any order.
            logical_labels: has the columns `labels`, 0 or 1.

        Returns:
            Distributions with the index of the logical labels, one column per label.

        Raises:
            DataError: a column is missing, or has text where there were numbers; or the encoded
                features would not fit into memory.
        """
        for kind, wanted, given in (
            ("features", list(self.encoder.feature_names_in_), features.columns),
            ("labels", self.labels, logical_labels.columns),
        ):
            absent = [name for name in wanted if name not in given]
            if absent:
                raise DataError(
                    f"the model was fitted with {kind} that are not here: {', '.join(absent)}"
                )
        encoded = encode(self.encoder, features)
        return self.enhancer.transform(encoded, logical_labels[self.labels])

    def unseen_values(self, features: pd.DataFrame) -> dict[str, list[str]]:
        """Values that the model was not fitted to, by the name of the categorical feature."""
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


def encode(encoder: TransformerMixin, features: pd.DataFrame) -> np.ndarray:
    """Encode features by a fitted encoder, without the copies that the encoder itself makes.

    Args:
        encoder: as `FittedModel` has it.
        features: have the columns that the encoder was fitted to, of any pandas type.

    Returns:
        What the encoder would return: float64, samples x numbers.

    Raises:
        DataError: a column of numbers has text, infinity or too large a number in it; or the
            result would not fit into memory.
    """
    (_, imputer, numbers), (_, encoding, texts) = encoder.transformers_[:2]
    shape = len(features), len(encoder.get_feature_names_out())
    refuse_beyond_memory("the table of encoded features", shape)
    encoded = np.empty(shape)
    for column, name in enumerate(numbers):
        values = as_numbers(name, features[name])
        encoded[:, column] = np.where(np.isnan(values), imputer.statistics_[column], values)
    if len(texts):
        rows = max(1, TEXTS_AT_ONCE // len(texts))
        for start in range(0, len(features), rows):
            part = features[start : start + rows][list(texts)].apply(as_texts)
            encoded[start : start + rows, len(numbers) :] = encoding.transform(part)
    return encoded


def as_numbers(name: str, column: pd.Series) -> np.ndarray:
    """Convert a column of any pandas type to floats; missing values become NaN.

    Raises:
        DataError: the column has text, infinity or too large a number in it.
    """
    try:
        if column.dtype == object:
            column = column.map(float, na_action="ignore")
        if isinstance(column.dtype, pd.SparseDtype):
            values = column.to_numpy(float)
        else:
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
    return values


def as_texts(column: pd.Series) -> pd.Series:
    """Convert a column of any pandas type to texts; missing values become NaN."""
    if isinstance(column.dtype, pd.StringDtype):
        return column.astype(object)
    return column.astype(object).map(str, na_action="ignore").where(column.notna(), np.nan)


class FittedModelDataset(AbstractVersionedDataset[FittedModel, FittedModel]):
    """A folder with `model.json` (method, hyperparameters, names), weights and the encoder.

    Reading any of them runs no code.

    Args:
        filepath: the folder.
        version: None for a folder without versions.
        metadata: Kedro-Viz reads it.
    """

    def __init__(
        self,
        filepath: str,
        version: Version | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.metadata = metadata
        super().__init__(
            filepath=PurePosixPath(filepath),
            version=version,
            exists_function=isdir,
            glob_function=glob,
        )

    def load(self) -> FittedModel:
        """Read the model.

        Raises:
            RawFileError: the folder is missing or holds no model.
        """
        return read_model(Path(kedro_internals.load_path(self)))

    def save(self, data: FittedModel) -> None:
        """Write the model; the folder appears complete or not at all.

        A transductive method leaves no folder, because it cannot recover new rows.
        """
        if not data.enhancer.inductive:
            return
        folder = Path(kedro_internals.save_path(self))
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(partial_name(folder))
        temporary.mkdir()
        try:
            write_model(data, temporary)
            # A node that is run again replaces its version.
            shutil.rmtree(folder, ignore_errors=True)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _exists(self) -> bool:
        try:
            return Path(kedro_internals.load_path(self)).is_dir()
        except DatasetError:
            return False

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._filepath), "version": self._version}


def write_model(model: FittedModel, folder: Path) -> None:
    """Write a model into an existing folder."""
    import skops.io
    from safetensors.numpy import save_file

    enhancer = model.enhancer
    configuration = {
        "method": model.method,
        # A model that was fitted on a GPU can be used on a machine without one.
        "hyperparameters": {
            name: value for name, value in enhancer.get_params().items() if name != "device"
        },
        "features": enhancer.n_features_in_,
        "labels": model.labels,
    }
    if model.kept_reading is not None:
        # For a reader: the weights say so, too.
        configuration["kept_reading"] = model.kept_reading
    if model.comparison is not None:
        # pandas writes gaps as null.
        configuration["comparison"] = json.loads(model.comparison.to_json(orient="records"))
    (folder / CONFIGURATION).write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    # ascontiguousarray would give a scalar a dimension.
    weights = {name: np.asarray(value, order="C") for name, value in enhancer.get_weights().items()}
    save_file(weights, folder / WEIGHTS)
    skops.io.dump(model.encoder, folder / ENCODER)


def read_model(folder: Path) -> FittedModel:
    """Read a model from its folder.

    Raises:
        RawFileError: the folder is missing or holds no model.
    """
    import skops.io
    from safetensors.numpy import load_file

    absent = [name for name in (CONFIGURATION, WEIGHTS, ENCODER) if not (folder / name).is_file()]
    if absent:
        raise RawFileError(f"{folder} is no fitted model: it has no {', '.join(absent)}")
    try:
        configuration = json.loads((folder / CONFIGURATION).read_text(encoding="utf-8"))
        method, labels = configuration["method"], configuration["labels"]
        enhancer = make_enhancer(method, configuration["hyperparameters"])
        enhancer.set_weights(load_file(folder / WEIGHTS), configuration["features"], len(labels))
        encoder = skops.io.load(folder / ENCODER, trusted=TRUSTED)
    except Exception as error:
        raise RawFileError(
            f"{folder} cannot be read as a fitted model ({type(error).__name__}: {error})"
        ) from error
    comparison = configuration.get("comparison")
    return FittedModel(method, enhancer, encoder, labels, comparison and pd.DataFrame(comparison))
