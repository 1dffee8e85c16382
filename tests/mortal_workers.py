"""A preload of Dask workers: nodes kill their worker once.

Environment variables choose the nodes and the moment:

- `MORTAL_NODES` is a regular expression for the last part of a node's name. With the moment
  "always" it is for the whole name.
- `MORTAL_MOMENT` is "before" (the node runs), "unsaved" (it has run, no output is saved), "half"
  (one output is saved) or "always" (as "half", but each time).
- `MORTAL_VERSION` is a version of NumPy that the worker reports instead of the installed one.
- `MORTAL_FOLDER` gets an empty file for each kind of node and moment that killed a worker, and a
  file `begun` with a line for each node that was begun.
"""

import os
import re
import signal
from pathlib import Path

from kedro.io import DataCatalog
from kedro.pipeline.node import Node

from conle import dask_runner
from conle.run import made_with

DEFAULTS = {"FOLDER": ".", "NODES": "-", "MOMENT": "before"}
FOLDER, NODES, MOMENT = (
    os.environ.get(f"MORTAL_{name}", default) for name, default in DEFAULTS.items()
)
FOLDER = Path(FOLDER)
running, given_up = None, False
node_run, catalog_save = Node.run, DataCatalog.save


def perish(moment):
    always = MOMENT == "always" and moment == "half" and not given_up
    if always and re.fullmatch(NODES, running):
        os.kill(os.getpid(), signal.SIGKILL)
    kind = running.rpartition(".")[2]
    if moment != MOMENT or not re.fullmatch(NODES, kind):
        return
    try:
        (FOLDER / f"{kind}.{moment}").touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def run(self, inputs=None):
    global running, given_up
    running = self.name
    with (FOLDER / "begun").open("a") as begun:
        begun.write(f"{self.name} {os.environ['MORTAL_NAME']}\n")
    given_up = getattr(self.func, "func", None) is dask_runner.give_up
    perish("before")
    outputs = node_run(self, inputs)
    perish("unsaved")
    return outputs


def save(self, ds_name, data):
    catalog_save(self, ds_name, data)
    perish("half")


def dask_setup(worker):
    if "MORTAL_VERSION" in os.environ:
        dask_runner.made_with = lambda: {**made_with(), "numpy": os.environ["MORTAL_VERSION"]}
    Node.run, DataCatalog.save = run, save
