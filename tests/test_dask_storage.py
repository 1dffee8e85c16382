"""Entries that no storage holds go from node to node by the client."""

import operator

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
