"""Runs pipelines on a Dask cluster: one of this machine's own, or one that is there."""

import logging
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import click
from fsspec.implementations.local import LocalFileSystem
from kedro.framework import project
from kedro.framework.hooks.manager import _create_hook_manager, _register_hooks
from kedro.io import (
    AbstractDataset,
    AbstractVersionedDataset,
    CatalogProtocol,
    DataCatalog,
    MemoryDataset,
)
from kedro.pipeline import Node, Pipeline
from kedro.runner import AbstractRunner
from kedro.runner.task import Task

from conle.data.atomic import PARTIAL, Whole, remove_left_over
from conle.errors import ParameterError
from conle.hooks import GO_ON, ExperimentTracking, plain_error, read_by_hooks
from conle.options import ClusterOptions, cluster_options
from conle.pipelines.recovery.nodes import progress_bar
from conle.pipelines.resuming import failing, made_with

if TYPE_CHECKING:
    from distributed import Client, Future
    from pluggy import PluginManager

logger = logging.getLogger(__name__)

# Topic of the events by which workers say what they have begun.
BEGUN = "conle-begun"
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_COUNTS = 5.0
SECONDS_BETWEEN_WARNINGS = 60.0
SECONDS_TO_RESTART = 20.0
TIMES_SUSPECTED = 10


@dataclass(frozen=True)
class Work:
    """All that a worker needs to run a node.

    Attributes:
        node: the node.
        datasets: what it reads and writes, by name.
        run_id: of Kedro's session.
        is_async: whether to load and save in threads.
        package: name of the project's package.
        made_with: the code and the packages that the results are to be made with.
        environment: variables for MLflow.
    """

    node: Node
    datasets: dict[str, AbstractDataset]
    run_id: str | None
    is_async: bool
    package: str
    made_with: dict[str, Any]
    environment: dict[str, str]


class NodeError(RuntimeError):
    """A node has failed on a worker: the message holds the traceback."""


class DaskRunner(AbstractRunner):
    """Runs every node on a worker of a Dask cluster; artifacts go by the catalog.

    A node is handed out when all that it needs is made, and forgotten when it is done, so that
    the death of a worker touches no other node than the one it was at. That one is done again by
    another worker, in the place of what the first may have saved.

    Args:
        is_async: whether nodes load and save in threads.
        options: of the cluster; by default those in `conf/*/dask.yml`.
    """

    def __init__(self, is_async: bool = False, options: ClusterOptions | None = None) -> None:
        super().__init__(is_async=is_async)
        self._options = options

    def _get_executor(self, max_workers: int) -> None:
        """None: Dask is the executor."""

    def _run(
        self,
        pipeline: Pipeline,
        catalog: CatalogProtocol,
        hook_manager: "PluginManager | None" = None,
        run_id: str | None = None,
    ) -> None:
        options = self._options or cluster_options()
        with connected(options) as client:
            logger.info("Dask: %s, dashboard at %s", _described(client), client.dashboard_link)
            _Run(client, options, pipeline, catalog, run_id, self._is_async).finish()


@contextmanager
def connected(options: ClusterOptions) -> Iterator["Client"]:
    """A client of the scheduler that the options name, or of a cluster that ends with it.

    Raises:
        ParameterError: Dask is not installed, or the scheduler does not answer.
    """
    try:
        from distributed import Client, LocalCluster, Security
    except ImportError:
        raise ParameterError(
            "Dask is not installed, which conle.runner.DaskRunner needs: pip install 'conle[dask]'"
        ) from None
    if options.address is None:
        # With certificates of its own: others on this machine could run code on it. Limits of
        # memory are the system's, as in other runners.
        with (
            LocalCluster(
                n_workers=options.workers or os.cpu_count(),
                threads_per_worker=1,
                memory_limit=0,
                security=True,
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    security = None
    if options.tls is not None:
        security = Security(
            tls_ca_file=str(options.tls.ca_file),
            tls_client_cert=str(options.tls.cert),
            tls_client_key=str(options.tls.key),
            require_encryption=True,
        )
    try:
        client = Client(
            options.address, timeout=options.patience, security=security, set_as_default=False
        )
    except (OSError, ValueError, TypeError) as error:
        raise ParameterError(
            f"the Dask scheduler at {options.address} does not answer ({error}): start it (dask "
            "scheduler), or name another in conf/local/dask.yml"
        ) from None
    with client:
        yield client


def _described(client: "Client") -> str:
    workers = len(client.scheduler_info()["workers"])
    return f"{workers} worker{'' if workers == 1 else 's'}"


def _fits(wanted: dict[str, float], offers: list[dict[str, float]]) -> bool:
    return any(
        all(amount <= offered.get(name, 0) for name, amount in wanted.items()) for offered in offers
    )


@dataclass
class _Handed:
    """A node that was handed out, and what is known of it."""

    node: Node
    resources: dict[str, float]
    connection: int
    future: "Future | None" = None
    worker: str | None = None
    since: float | None = None


class _Run:
    """A pipeline on its way: what may begin, what has begun, what is done."""

    def __init__(
        self,
        client: "Client",
        options: ClusterOptions,
        pipeline: Pipeline,
        catalog: CatalogProtocol,
        run_id: str | None,
        is_async: bool,
    ) -> None:
        self._client, self._options, self._catalog = client, options, catalog
        self._common = {
            "run_id": run_id,
            "is_async": is_async,
            "package": project.PACKAGE_NAME,
            "made_with": made_with(),
            "environment": ExperimentTracking.environment_of_workers(),
        }
        self._nodes = {node.name: node for node in pipeline.nodes}
        self._missing: dict[str, int] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._stage: dict[str, int] = {}
        parents = pipeline.node_dependencies
        for node in pipeline.nodes:
            names = [parent.name for parent in parents[node]]
            self._missing[node.name] = len(names)
            self._stage[node.name] = 1 + max((self._stage[name] for name in names), default=0)
            for name in names:
                self._children[name].append(node.name)
        self._in_memory = {
            name for name in pipeline.all_outputs() if isinstance(catalog.get(name), MemoryDataset)
        }
        # By how many nodes what is in memory is still to be read.
        self._readers = Counter(
            name for node in pipeline.nodes for name in self._in_memory & {*node.inputs}
        )
        # The long ones, where there are any.
        self._cells = {name for name, node in self._nodes.items() if "method" in node.tags}
        self._cells = self._cells or set(self._nodes)
        self._handed: dict[str, _Handed] = {}
        self._number = self._connection = self._done_cells = 0
        self._done: set[str] = set()
        self._given_up: set[str] = set()
        self._begins: Counter[str] = Counter()
        self._suspected: Counter[str] = Counter()
        self._ended: SimpleQueue[Future] = SimpleQueue()
        self._topics = {BEGUN: self._begun, "all": self._happened}
        # What workers offer: those of now, and all that there have been.
        self._workers: list[dict[str, float]] = []
        self._offers: list[dict[str, float]] = []
        self._looked = self._counted = self._warned = -SECONDS_BETWEEN_WARNINGS

    def finish(self) -> None:
        """Run everything.

        Raises:
            ParameterError: the scheduler is lost, or a node has ended too many workers.
            Exception: of the node that has failed.
        """
        with progress_bar("cells") as self._show:
            self._progress()
            try:
                self._listen()
                self._wait_for_workers()
                for name, missing in self._missing.items():
                    if not missing:
                        self._hand_out(self._nodes[name])
                while len(self._done) < len(self._nodes):
                    self._wait()
            except Exception:
                if self._client.status in ("closing", "closed"):
                    raise self._lost() from None
                raise
            finally:
                if self._client.status == "running":
                    self._client.cancel([handed.future for handed in self._handed.values()])
                    # A scheduler of this process would complain of whom it cannot tell.
                    for topic in self._topics:
                        self._client.unsubscribe_topic(topic)

    def _wait_for_workers(self) -> None:
        """Before there are any, it is not known what they offer."""
        self._count()
        while not self._workers:
            if self._client.status in ("closing", "closed"):
                raise self._lost()
            self._warn("there are none")
            time.sleep(SECONDS_BETWEEN_LOOKS)
            self._count()

    def _listen(self) -> None:
        """Hear what workers begin, that they die, and what they log."""
        for topic, heard in self._topics.items():
            self._client.subscribe_topic(topic, heard)
        self._client.forward_logging(__name__.split(".")[0], level=logging.INFO)

    def _begun(self, event: tuple[float, dict[str, str]]) -> None:
        _, said = event
        handed = self._handed.get(said["key"])
        if handed is not None:
            handed.worker, handed.since = said["worker"], time.monotonic()
            self._begins[handed.node.name] += 1

    def _happened(self, event: tuple[float, Any]) -> None:
        _, said = event
        if isinstance(said, dict) and said.get("action") == "remove-worker":
            # A copy, for this is another thread.
            handed = list(self._handed.items())
            had = [what.node.name for key, what in handed if key in said["processing-tasks"]]
            if had:
                names = ", ".join(sorted(had))
                logger.warning("A worker is lost; what it had goes to another: %s", names)

    def _hand_out(self, node: Node) -> None:
        names = {*node.inputs, *node.outputs, *read_by_hooks(node)}
        datasets = {name: self._catalog.get(name) for name in names}
        self._number += 1
        key = f"{node.name}-{self._common['run_id']}-{self._number}"
        resources = self._resources(node)
        handed = self._handed[key] = _Handed(node, resources, self._connection)
        handed.future = self._client.submit(
            run_node,
            Work(node, datasets, **self._common),
            key=key,
            resources=resources,
            # What is nearly done first: its cell is then closed.
            priority=self._stage[node.name],
            pure=False,
        )
        handed.future.add_done_callback(self._ended.put)

    def _resources(self, node: Node) -> dict[str, float]:
        """What workers offer of that which the node would have."""
        wanted = {
            name: amount
            for tag in node.tags & self._options.resources.keys()
            for name, amount in self._options.resources[tag].items()
        }
        if wanted and time.monotonic() - self._counted > SECONDS_BETWEEN_COUNTS:
            self._count()
        return wanted if _fits(wanted, self._offers) else {}

    def _count(self) -> None:
        """Take note of the workers and of what they offer."""
        # A scheduler that is lost just now: the futures will tell.
        with suppress(OSError):
            found = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
            self._workers = [worker["resources"] for worker in found.values()]
        self._offers += [offered for offered in self._workers if offered not in self._offers]
        self._counted = time.monotonic()

    def _warn(self, lacking: str) -> None:
        if time.monotonic() - self._warned > SECONDS_BETWEEN_WARNINGS:
            self._warned = time.monotonic()
            logger.warning("Waiting for workers: %s", lacking)

    def _wait(self) -> None:
        """Take what has ended, and look after what has not."""
        if time.monotonic() - self._looked > SECONDS_BETWEEN_LOOKS:
            self._look_after()
            self._looked = time.monotonic()
        try:
            future = self._ended.get(timeout=SECONDS_BETWEEN_LOOKS)
        except Empty:
            return
        self._take(self._handed.pop(future.key))

    def _take(self, handed: _Handed) -> None:
        node, future = handed.node, handed.future
        error = future.exception() if future.status == "error" else None
        if error is not None:
            self._failed(node, error)
            return
        made: dict[str, Any] = {}
        if self._in_memory & {*node.outputs}:
            with suppress(CancelledError):
                made = future.result()
        if future.status == "cancelled":
            # The scheduler was lost, and the new one knows nothing of it.
            if handed.connection == self._connection:
                self._reconnect()
            self._hand_out(node)
            return
        # Dask would make again, when its worker dies, what is still asked for.
        future.release()
        for name, data in made.items():
            self._catalog.save(name, data)
        self._finished(node)

    def _failed(self, node: Node, error: Exception) -> None:
        from distributed import KilledWorker

        if isinstance(error, ModuleNotFoundError) or "deserialization of the task" in str(error):
            raise ParameterError(
                f"the Dask scheduler or a worker cannot read a node ({error}): install the project "
                "there as here"
            )
        if not isinstance(error, KilledWorker):
            raise error
        begun, limit = self._begins[node.name], self._options.time_limit
        # Dask suspects those too that had not begun on a worker that died.
        if begun <= error.allowed_failures and self._suspected[node.name] < TIMES_SUSPECTED:
            self._suspected[node.name] += 1
            self._hand_out(node)
            return
        failure = (
            f"{max(begun, error.allowed_failures + 1)} workers have died of it, for lack of memory?"
            + ("" if limit is None else f" Or it took longer than {limit:g} s.")
        )
        instead = failing(node, failure)
        if instead is None or node.name in self._given_up:
            raise ParameterError(f"{node.name}: {failure} {GO_ON}")
        self._given_up.add(node.name)
        self._hand_out(instead)

    def _finished(self, node: Node) -> None:
        self._done.add(node.name)
        for name in self._in_memory & {*node.inputs}:
            self._readers[name] -= 1
            if not self._readers[name]:
                self._catalog.release(name)
        for child in self._children[node.name]:
            self._missing[child] -= 1
            if not self._missing[child]:
                self._hand_out(self._nodes[child])
        self._progress(node)

    def _progress(self, node: Node | None = None) -> None:
        self._done_cells += node is not None and node.name in self._cells
        done = self._done_cells
        self._show(done, len(self._cells), "" if node is None else node.name)
        if node is not None and not sys.stderr.isatty():
            logger.info("Completed %s (%d of %d cells)", node.name, done, len(self._cells))

    def _look_after(self) -> None:
        """See that there are workers, and that none hangs."""
        if self._client.status != "running":
            return
        now = time.monotonic()
        limit = self._options.time_limit
        hanging = {
            handed.worker
            for handed in self._handed.values()
            if limit is not None
            and handed.since is not None
            and now - handed.since > limit
            and not handed.future.done()
        }
        if hanging:
            logger.warning("Over the time limit, restarted: %s", ", ".join(sorted(hanging)))
            for handed in self._handed.values():
                if handed.worker in hanging:
                    handed.worker = handed.since = None
            # Not by the client's own method, which waits, and fails if one has just died.
            with suppress(OSError):
                self._client.sync(
                    self._client.scheduler.restart_workers,
                    workers=sorted(hanging),
                    timeout=SECONDS_TO_RESTART,
                    wait_for_workers=False,
                    on_error="return",
                    stimulus_id=f"time-limit-{now}",
                )
        waiting = [handed.resources for handed in self._handed.values() if handed.since is None]
        if waiting and now - self._counted > SECONDS_BETWEEN_COUNTS:
            self._count()
            lacking = [wanted for wanted in waiting if not _fits(wanted, self._workers)]
            if lacking:
                names = ", ".join(sorted({name for wanted in lacking for name in wanted}))
                self._warn(f"none of those there are offers {names}" if names else "there are none")

    def _reconnect(self) -> None:
        """Wait for a scheduler that was lost.

        Raises:
            ParameterError: it has not come back.
        """
        logger.warning("The Dask scheduler is lost; waiting for it")
        listening = False
        while not listening:
            if self._client.status in ("closing", "closed"):
                raise self._lost()
            time.sleep(SECONDS_BETWEEN_LOOKS)
            # It may be lost again at once.
            with suppress(OSError):
                if self._client.status == "running":
                    self._listen()
                    listening = True
        self._connection += 1

    def _lost(self) -> ParameterError:
        return ParameterError(
            f"the Dask scheduler {self._options.address} is lost, and has not come back in "
            f"{self._options.patience:g} s. {GO_ON}"
        )


class CatalogOfWorker(DataCatalog):
    """Lets a node be done again in the same run; Kedro refuses to save a version twice."""

    def save(self, ds_name: str, data: Any) -> None:
        """Save, in the place of what another worker has left before it died."""
        dataset = self.get(ds_name)
        if not isinstance(dataset, AbstractVersionedDataset) or not dataset._version:
            super().save(ds_name, data)
            return
        files = getattr(dataset, "_fs", None) or LocalFileSystem()
        path = str(dataset._get_versioned_path(dataset.resolve_save_version()))
        if isinstance(dataset, Whole):
            # The file is replaced in one step, by the same content: readers notice nothing.
            dataset._exists_function = _nowhere
            if dataset._protocol == "file":
                remove_left_over(Path(path).parent.glob(PARTIAL))
        elif files.exists(path):
            files.rm(path, recursive=True)
        super().save(ds_name, data)


def _nowhere(path: str) -> bool:
    return False


def run_node(work: Work) -> dict[str, Any]:
    """Run a node, on a worker.

    Returns:
        Its outputs that are in no storage, by name.

    Raises:
        ParameterError: the worker would run several nodes at once, or has other versions.
        ClickException: a user, a disk or a server is at fault.
        NodeError: the node has failed.
    """
    from distributed import get_worker

    worker = get_worker()
    worker.log_event(BEGUN, {"key": worker.get_current_task(), "worker": worker.address})
    if worker.state.nthreads != 1:
        raise ParameterError(
            f"the Dask worker {worker.address} has {worker.state.nthreads} threads; methods have "
            "threads of their own: start it with --nthreads 1, and several of them with --nworkers"
        )
    hooks = _hooks(work.package)
    _refuse_other_versions(work.made_with, worker.address)
    os.environ.pop(ExperimentTracking.PARENT, None)
    os.environ.update(work.environment)
    catalog = CatalogOfWorker(datasets=dict(work.datasets))
    failure = None
    try:
        Task(work.node, catalog, work.is_async, hooks, work.run_id).execute()
    except Exception as error:
        failure = _as_message(error, f"{work.node.name}, on {worker.address}")
    if failure is not None:
        raise failure
    return {
        name: catalog.load(name)
        for name in work.node.outputs
        if isinstance(catalog.get(name), MemoryDataset)
    }


def _as_message(error: Exception, place: str) -> Exception:
    """An error that can be sent.

    One with its causes and its traceback may refer to itself or be too deep, and the client would
    wait for ever for what could not be sent.
    """
    plain = plain_error(error)
    if plain is not None:
        return click.ClickException(plain.message)
    return NodeError(f"{place}:\n{''.join(format_exception(error))}")


@cache
def _hooks(package: str) -> "PluginManager":
    """The project's hooks; not those of plugins, of which kedro-mlflow's opens runs of its own."""
    project.configure_project(package)
    # The bar over the cells is enough: those of methods would be drawn over it.
    os.environ["TTY_COMPATIBLE"] = "0"
    # The client shows what is logged, and says what has failed.
    logging.getLogger(package).propagate = False
    logging.getLogger("distributed.worker").addFilter(
        lambda record: not str(record.msg).startswith("Compute Failed")
    )
    manager = _create_hook_manager()
    _register_hooks(manager, project.settings.HOOKS)
    return manager


def _refuse_other_versions(wanted: dict[str, Any], address: str) -> None:
    here = made_with()
    differing = [name for name, value in wanted.items() if here.get(name) != value]
    if differing:
        raise ParameterError(
            f"the Dask worker {address} has another version of {', '.join(differing)}: its results "
            "would differ. Install the same there"
        )
