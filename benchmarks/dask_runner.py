"""Measures what Dask adds to the time of a node, and whether a client keeps many workers busy.

    python benchmarks/dask_runner.py [--cells 2000] [--workers 20] [--seconds 1]

A cell is a node that sleeps and one that reads what it has written, as JSON files. First, 200 cells
that do not sleep run with Kedro's SequentialRunner and with the DaskRunner on one worker. Then many
cells that sleep run on many workers of this machine; sleeping alone takes a known time. The
client's seconds are those of its process, which also has the scheduler. The script prints a table
and writes benchmarks/dask_runner.csv.
"""

import argparse
import os
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

# As in the project: before Kedro is imported.
os.environ["KEDRO_LOGGING_CONFIG"] = str(Path(__file__).parents[1] / "conf" / "logging.yml")

import pandas as pd
from distributed import LocalCluster
from kedro.framework.project import configure_project
from kedro.io import DataCatalog, MemoryDataset, Version
from kedro.pipeline import Node, Pipeline
from kedro.runner import SequentialRunner

from conle.dask_runner import DaskRunner
from conle.data.atomic import JSONDataset
from conle.options import ClusterOptions

CELLS_OF_ONE_WORKER = 200
REPETITIONS = 3


def work(seconds):
    time.sleep(seconds)
    return {"slept": seconds}


def score(made):
    return made


def cells(number, seconds, folder, version):
    names = [f"cell_{index}" for index in range(number)]
    pipeline = Pipeline(
        node
        for name in names
        for node in (
            Node(work, "seconds", f"{name}.made", name=f"{name}.work", tags=["method"]),
            Node(score, f"{name}.made", f"{name}.scored", name=f"{name}.score"),
        )
    )
    catalog = DataCatalog(
        {
            f"{name}.{kind}": JSONDataset(
                filepath=f"{folder}/{name}/{kind}.json", version=Version(version, version)
            )
            for name in names
            for kind in ("made", "scored")
        }
        | {"seconds": MemoryDataset(seconds)}
    )
    return pipeline, catalog


def timed(runner, *given):
    """Wall time and CPU time of this process, in seconds."""
    pipeline, catalog = cells(*given)
    wall, own = time.perf_counter(), time.process_time()
    runner.run(pipeline, catalog)
    return time.perf_counter() - wall, time.process_time() - own


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    configure_project("conle")
    few, rows = 2 * CELLS_OF_ONE_WORKER, []

    def row(what, nodes, wall, own):
        rows.append({"what": what, "nodes": nodes, "seconds": wall, "client seconds": own})
        rows[-1]["ms a node"] = 1000 * wall / nodes
        rows[-1]["client ms a node"] = 1000 * own / nodes

    with TemporaryDirectory() as folder:
        local = partial(LocalCluster, threads_per_worker=1, memory_limit=0, dashboard_address=None)
        with local(n_workers=1) as cluster:
            dask = DaskRunner(options=ClusterOptions(address=cluster.scheduler_address))
            timed(dask, 2, 0, folder, "warm")
            for repetition in range(REPETITIONS):
                given = (CELLS_OF_ONE_WORKER, 0, folder)
                row(
                    "one after the other", few, *timed(SequentialRunner(), *given, f"s{repetition}")
                )
                row("one worker", few, *timed(dask, *given, f"d{repetition}"))
        with local(n_workers=options.workers) as cluster:
            dask = DaskRunner(options=ClusterOptions(address=cluster.scheduler_address))
            timed(dask, 10 * options.workers, 0, folder, "warm too")
            given = (options.cells, options.seconds, folder, "many")
            row(f"{options.workers} workers", 2 * options.cells, *timed(dask, *given))
    table = pd.DataFrame(rows)
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)
    print(table.to_string(index=False, float_format="{:.2f}".format))
    means = table.groupby("what")["ms a node"].mean()
    print(
        f"A node costs {means['one worker'] - means['one after the other']:.1f} ms more on one "
        f"worker. {options.cells} cells that sleep {options.seconds:g} s on {options.workers} "
        f"workers: {rows[-1]['seconds']:.1f} s, where sleeping alone takes "
        f"{options.cells * options.seconds / options.workers:.1f}; the client was at work in "
        f"{100 * rows[-1]['client seconds'] / rows[-1]['seconds']:.0f} % of them."
    )


if __name__ == "__main__":
    main()
