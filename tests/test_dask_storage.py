"""Entries that no storage holds go from node to node by the client."""

import operator
import os

import pytest
from kedro.framework.project import configure_project
from kedro.io import DataCatalog, DatasetError, MemoryDataset
from kedro.pipeline import Node, Pipeline

from conle.dask_runner import DaskRunner
from conle.options import ClusterOptions


@pytest.mark.slow
def test_what_is_in_no_storage_goes_by_the_client():
    configure_project("conle")
    pipeline = Pipeline(
        [
            Node(operator.neg, "given", "negative"),
            Node(operator.mul, ["given", "negative"], "product"),
            Node(operator.sub, ["product", "negative"], "difference"),
        ]
    )
    catalog = DataCatalog({"given": MemoryDataset(3)})
    runner = DaskRunner(options=ClusterOptions(workers=2))
    assert runner.run(pipeline, catalog)["difference"].load() == -6
    # The last reader is done, so the dataset is released.
    with pytest.raises(DatasetError, match="has not been saved"):
        catalog.load("negative")


@pytest.mark.slow
def test_workers_of_this_machine_keep_freed_memory():
    """Dask's default, 65536, makes them give it back and get it again in every operation."""
    configure_project("conle")
    pipeline = Pipeline([Node(os.getenv, "variable", "value")])
    catalog = DataCatalog({"variable": MemoryDataset("MALLOC_TRIM_THRESHOLD_")})
    runner = DaskRunner(options=ClusterOptions(workers=1))
    assert runner.run(pipeline, catalog)["value"].load() == str(2**30)
