"""Fitted models as folders of open formats: JSON, safetensors and skops."""

import json
import shutil
from glob import glob
from os.path import isdir
from pathlib import Path, PurePosixPath
from typing import Any

from kedro.io import AbstractVersionedDataset, DatasetError, Version

from conle import kedro_internals
from conle.data.atomic import partial_name
from conle.errors import RawFileError
from conle.fitted_model import FittedModel
from conle.methods.registry import make_enhancer

CONFIGURATION, WEIGHTS, ENCODER = "model.json", "weights.safetensors", "encoder.skops"
# What an encoder holds beyond scikit-learn's own classes.
TRUSTED = ("numpy.dtype",)


class FittedModelDataset(AbstractVersionedDataset[FittedModel, FittedModel]):
    """A folder with `model.json` (method, hyperparameters, names), weights and the encoder.

    None of them can run code when it is read.

    Args:
        filepath: of the folder.
        version: if it is versioned.
        metadata: for Kedro-Viz.
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
            RawFileError: the folder is missing or is none of a model.
        """
        return read_model(Path(kedro_internals.load_path(self)))

    def save(self, data: FittedModel) -> None:
        """Write the model; a reader finds all of it or none."""
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
    """Write a model into a folder that is there."""
    import numpy as np
    import skops.io
    from safetensors.numpy import save_file

    enhancer = model.enhancer
    configuration = {
        "method": model.method,
        # A model made on a GPU is of use where there is none.
        "hyperparameters": {
            name: value for name, value in enhancer.get_params().items() if name != "device"
        },
        "features": enhancer.n_features_in_,
        "labels": model.labels,
    }
    (folder / CONFIGURATION).write_text(json.dumps(configuration, indent=1), encoding="utf-8")
    # Not ascontiguousarray: it gives a number a dimension.
    weights = {name: np.array(value, order="C") for name, value in enhancer.get_weights().items()}
    save_file(weights, folder / WEIGHTS)
    skops.io.dump(model.encoder, folder / ENCODER)


def read_model(folder: Path) -> FittedModel:
    """Read a model from its folder.

    Raises:
        RawFileError: the folder is missing or is none of a model.
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
    return FittedModel(method, enhancer, encoder, labels)
