"""A preload of Dask workers: nodes end or hang their worker once.

The environment says which and when: `MORTAL_NODES`, a regular expression of kinds of nodes;
`MORTAL_MOMENT`, "before" the node, "unsaved" after it, "half" saved, or "always" when it is half
saved (then `MORTAL_NODES` is of whole names); `MORTAL_WAY`, "kill", "sleep" or "stop".
`MORTAL_VERSION` is a version of NumPy that is not there. In the folder `MORTAL_FOLDER` there is a
file for each kind that did so, and a line for each node that was begun.
"""

import os
import re
import signal
import time
from functools import partial
from pathlib import Path

from kedro.io import DataCatalog
from kedro.pipeline.node import Node

from conle import runner
from conle.pipelines.resuming import made_with

DEFAULTS = {"FOLDER": ".", "NODES": "-", "MOMENT": "before", "WAY": "kill"}
FOLDER, NODES, MOMENT, WAY = (
    os.environ.get(f"MORTAL_{name}", default) for name, default in DEFAULTS.items()
)
FOLDER = Path(FOLDER)
WAYS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "sleep": lambda: time.sleep(3600),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}
running, given_up = None, False
node_run, catalog_save = Node.run, DataCatalog.save


def perish(moment):
    always = MOMENT == "always" and moment == "half" and not given_up
    if always and re.fullmatch(NODES, running):
        WAYS[WAY]()
    kind = running.rpartition(".")[2]
    if moment != MOMENT or not re.fullmatch(NODES, kind):
        return
    try:
        (FOLDER / f"{kind}.{moment}").touch(exist_ok=False)
    except FileExistsError:
        return
    # What is said of the node is to have left the process.
    time.sleep(0.2)
    WAYS[WAY]()


def run(self, inputs=None):
    global running, given_up
    running = self.name
    with (FOLDER / "begun").open("a") as begun:
        begun.write(f"{self.name} {os.environ['MORTAL_NAME']}\n")
    given_up = isinstance(getattr(self.func, "keywords", {}).get("function"), partial)
    perish("before")
    outputs = node_run(self, inputs)
    perish("unsaved")
    return outputs


def save(self, ds_name, data):
    catalog_save(self, ds_name, data)
    perish("half")


def dask_setup(worker):
    if "MORTAL_VERSION" in os.environ:
        runner.made_with = lambda: {**made_with(), "numpy": os.environ["MORTAL_VERSION"]}
    Node.run, DataCatalog.save = run, save
