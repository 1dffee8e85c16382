"""Private attributes of Kedro that have no public counterpart; a test covers each."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from kedro.framework.hooks.manager import _create_hook_manager, _register_hooks
from kedro.io import AbstractDataset, AbstractVersionedDataset
from kedro.io.core import Version


def is_versioned(dataset: AbstractDataset) -> bool:
    """Whether each run writes a version of the dataset."""
    return isinstance(dataset, AbstractVersionedDataset) and bool(dataset._version)


def pin(dataset: AbstractVersionedDataset, load: str | None, save: str | None) -> None:
    """Fix the versions that a dataset loads and saves."""
    dataset._version = Version(load, save)


def versioned_path(dataset: AbstractVersionedDataset, version: str) -> PurePosixPath:
    """The path of a version, whether it exists or not."""
    return dataset._get_versioned_path(version)


def has(dataset: AbstractVersionedDataset, version: str) -> bool:
    """Whether a version exists."""
    path = str(versioned_path(dataset, version))
    _, files = file_system(dataset)
    return files.exists(path) if files else Path(path).exists()


def save_path(dataset: AbstractVersionedDataset) -> PurePosixPath:
    """The path that a dataset saves to; an existing version may be replaced."""
    if not is_versioned(dataset):
        return dataset._filepath
    return versioned_path(dataset, dataset.resolve_save_version())


def load_path(dataset: AbstractVersionedDataset) -> PurePosixPath:
    """The path that a dataset loads from."""
    if not is_versioned(dataset):
        return dataset._filepath
    return versioned_path(dataset, dataset.resolve_load_version())


def file_system(dataset: AbstractVersionedDataset) -> tuple[str, Any]:
    """Protocol and fsspec file system of a dataset; "file" and None without a file system."""
    return getattr(dataset, "_protocol", "file"), getattr(dataset, "_fs", None)


def hook_manager(hooks: Iterable[Any]) -> Any:
    """A manager of these hooks alone, without those of plugins."""
    manager = _create_hook_manager()
    _register_hooks(manager, hooks)
    return manager
