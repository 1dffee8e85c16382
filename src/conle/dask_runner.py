"""Runs pipelines on a Dask cluster: a new one on this machine, or an existing one."""

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import click
from kedro.framework import project
from kedro.io import AbstractDataset, CatalogProtocol, DataCatalog, MemoryDataset
from kedro.pipeline import Node, Pipeline
from kedro.runner import AbstractRunner
from kedro.runner.task import Task

from conle import kedro_internals
from conle.cells import bind
from conle.cli import plain_error
from conle.errors import ParameterError
from conle.messages import GO_ON
from conle.options import ClusterOptions, cluster_options, run_threads
from conle.preflight import read_by_hooks, use_threads
from conle.progress import progress_bar
from conle.run import has_cell, made_with
from conle.tracking import PARENT, environment_of_workers

if TYPE_CHECKING:
    from distributed import Client, Future
    from pluggy import PluginManager

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
# Workers keep freed memory. Dask's default makes them return it at once, and to get it back takes
# as long as the sweeps of a decoder.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25}
PACKAGE = __name__.split(".")[0]


@dataclass(frozen=True)
class Work:
    """All that a worker needs to run a node.

    Attributes:
        datasets: the datasets that the node and its hooks read and write, by name.
        run_id: version of the run.
        threads: threads that a method uses; None for as many as there are cores.
        package: name of the project's package.
        made_with: digest of the code, and versions of the packages that results depend on.
        environment: variables for MLflow.
    """

    node: Node
    datasets: Mapping[str, AbstractDataset]
    run_id: str | None
    threads: int | None
    package: str
    made_with: Mapping[str, str]
    environment: Mapping[str, str]


class NodeError(RuntimeError):
    """A node has failed on a worker; the message holds the traceback."""


class DaskRunner(AbstractRunner):
    """Runs every node on a worker of a Dask cluster; artifacts go through the catalog.

    A node is submitted when its inputs exist; at most one node per worker is submitted at a time.
    When a worker dies, Dask runs its node again on another one; files are replaced by equal ones. A
    node whose workers die again and again runs once more, alone, because another node may have
    ended its workers. If they die again, the node is given up.

    Args:
        is_async: Kedro passes it; not used.
        options: options of the cluster; by default those in `conf/*/dask.yml`.
    """

    def __init__(self, is_async: bool = False, options: ClusterOptions | None = None) -> None:
        super().__init__(is_async=is_async)
        self._options = options

    def _get_executor(self, max_workers: int) -> None:
        """Return no executor: Dask takes its place."""

    def _run(
        self,
        pipeline: Pipeline,
        catalog: CatalogProtocol,
        hook_manager: "PluginManager | None" = None,
        run_id: str | None = None,
    ) -> None:
        options = self._options or cluster_options()
        with connected(options) as client:
            workers = len(client.scheduler_info(n_workers=-1)["workers"])
            logger.info("Dask: %d workers, dashboard at %s", workers, client.dashboard_link)
            _Schedule(client, options, pipeline, catalog, run_id).run()


@contextmanager
def connected(options: ClusterOptions) -> Iterator["Client"]:
    """Connect to the scheduler that the options name, or to a new cluster that ends with the block.

    Raises:
        ParameterError: Dask is not installed, or the scheduler does not answer.
    """
    try:
        from dask import config
        from distributed import Client, LocalCluster, Security
    except ImportError:
        raise ParameterError(
            "Dask is not installed, which conle.dask_runner.DaskRunner needs: "
            "pip install 'conle[dask]'"
        ) from None
    if options.address is None:
        # Certificates keep other users of this machine from running code on the cluster. The system
        # limits memory, as for other runners.
        with (
            config.set({"distributed.nanny.pre-spawn-environ": MALLOC}),
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
    # The runner reports a lost scheduler in one message; Dask would log a traceback.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    with client:
        yield client


class _Schedule:
    """Keeps which nodes of a run wait, are submitted, or are done."""

    def __init__(
        self,
        client: "Client",
        options: ClusterOptions,
        pipeline: Pipeline,
        catalog: CatalogProtocol,
        run_id: str | None,
    ) -> None:
        from distributed import as_completed

        self._client, self._options, self._catalog = client, options, catalog
        self._common = {
            "run_id": run_id,
            "threads": run_threads(),
            "package": project.PACKAGE_NAME,
            "made_with": made_with(),
            "environment": environment_of_workers(),
        }
        self._waiting = {node: set(needed) for node, needed in pipeline.node_dependencies.items()}
        self._submitted: dict[Future, Node] = {}
        self._completed = as_completed(loop=client.loop)
        self._in_memory = {
            name for name in pipeline.all_outputs() if isinstance(catalog.get(name), MemoryDataset)
        }
        self._readers = Counter(
            name for node in pipeline.nodes for name in self._in_memory & {*node.inputs}
        )
        self._suspects: list[Node] = []
        self._suspected: set[str] = set()
        # Progress counts the nodes of cells, which are long; without any, all nodes.
        self._counted = {node for node in pipeline.nodes if has_cell(node)} or {*pipeline.nodes}
        self._done = 0
        self._offered: list[Mapping[str, float]] = []
        self._looked = -SECONDS_BETWEEN_LOOKS

    def run(self) -> None:
        """Run all nodes.

        Raises:
            ParameterError: the scheduler is lost, or a node has ended too many workers.
            Exception: the error of a node that failed.
        """
        # Workers send the log of the package to the client.
        self._client.forward_logging(PACKAGE, level=logging.INFO)
        try:
            with progress_bar("cells") as self._show:
                while self._waiting or self._submitted or self._suspects:
                    self._submit_ready()
                    future = next(self._completed)
                    self._take(future, self._submitted.pop(future))
        finally:
            if self._client.status == "running":
                self._client.cancel(list(self._submitted))

    def _submit_ready(self) -> None:
        """Submit the nodes whose inputs exist, at most one per worker."""
        ready = [node for node, needed in self._waiting.items() if not needed]
        offers = self._offers()
        for node in ready[: max(len(offers) - len(self._submitted), 0)]:
            del self._waiting[node]
            self._submit(node, offers)
        if self._suspects and not self._submitted:
            self._submit(self._suspects.pop(), offers)

    def _offers(self) -> list[Mapping[str, float]]:
        """The resources of every worker, at most a second old; waits until there is a worker."""
        if self._offered and time.monotonic() - self._looked < SECONDS_BETWEEN_LOOKS:
            return self._offered
        warned = False
        while True:
            if self._client.status != "running":
                raise self._lost()
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            if workers:
                self._offered = [worker["resources"] for worker in workers]
                self._looked = time.monotonic()
                return self._offered
            if not warned:
                logger.warning("Waiting for workers: there are none")
                warned = True
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _submit(self, node: Node, offers: list[Mapping[str, float]]) -> None:
        names = {*node.inputs, *node.outputs, *read_by_hooks(node)}
        wanted = {
            name: amount
            for tag in node.tags & self._options.resources.keys()
            for name, amount in self._options.resources[tag].items()
        }
        offered = any(
            all(amount <= own.get(name, 0) for name, amount in wanted.items()) for own in offers
        )
        future = self._client.submit(
            run_node,
            Work(node, {name: self._catalog.get(name) for name in names}, **self._common),
            key=f"{node.name}-{self._common['run_id']}-{time.monotonic_ns()}",
            # If no worker offers the resource, any worker takes the node.
            resources=wanted if offered else {},
            pure=False,
        )
        self._submitted[future] = node
        self._completed.add(future)

    def _take(self, future: "Future", node: Node) -> None:
        from distributed import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise self._lost()
        error = future.exception() if future.status == "error" else None
        if isinstance(error, ModuleNotFoundError) or "deserialization of the task" in str(error):
            raise ParameterError(
                f"the Dask scheduler or a worker cannot read a node ({error}): install the project "
                "there as here"
            )
        if isinstance(error, KilledWorker):
            if node.name in self._suspected:
                node = self._given_up(node, error.allowed_failures + 1)
            self._suspected.add(node.name)
            self._suspects.append(node)
            return
        if error is not None:
            raise error
        made = future.result() if self._in_memory & {*node.outputs} else {}
        # As long as a future exists, Dask computes its result again when the worker dies.
        future.release()
        for name, data in made.items():
            self._catalog.save(name, data)
        self._finish(node)

    def _given_up(self, node: Node, deaths: int) -> Node:
        """Replace the node of a cell by one that fails without running the method."""
        failure = f"{deaths} workers have died of it, for lack of memory?"
        empty = getattr(getattr(node.func, "func", None), "empty", None)
        if empty is None:
            raise ParameterError(f"{node.name}: {failure} {GO_ON}")
        logger.error("%s failed, the others go on: %s", node.name, failure)
        return Node(
            bind(partial(give_up, empty, failure), **node.func.keywords),
            inputs=node.inputs,
            outputs=node.outputs,
            name=node.name.removeprefix(f"{node.namespace}."),
            namespace=node.namespace,
            tags=node.tags,
        )

    def _finish(self, node: Node) -> None:
        for needed in self._waiting.values():
            needed.discard(node)
        for name in self._in_memory & {*node.inputs}:
            self._readers[name] -= 1
            if not self._readers[name]:
                self._catalog.release(name)
        self._done += node in self._counted
        self._show(self._done, len(self._counted), node.name)
        if not sys.stderr.isatty():
            logger.info("Completed %s (%d of %d cells)", node.name, self._done, len(self._counted))

    def _lost(self) -> ParameterError:
        place = self._options.address or "of this machine"
        return ParameterError(f"the Dask scheduler {place} is lost. {GO_ON}")


def give_up(empty: Callable, failure: str, *inputs: Any, **bound: Any) -> Any:
    """Return the outputs of a node that is given up: no rows, and the reason of the failure."""
    return empty(*inputs, failure=failure, **bound)


def run_node(work: Work) -> dict[str, Any]:
    """Run a node, on a worker.

    Returns:
        The outputs that the catalog keeps in memory, by name.

    Raises:
        ParameterError: the worker runs several nodes at once, or has other versions.
        ClickException: a user, a disk or a server is at fault.
        NodeError: the node has failed.
    """
    from distributed import get_worker

    worker = get_worker()
    if worker.state.nthreads != 1:
        raise ParameterError(
            f"the Dask worker {worker.address} has {worker.state.nthreads} threads; methods have "
            "threads of their own: start it with --nthreads 1, and several of them with --nworkers"
        )
    hooks = _hooks(work.package)
    refuse_other_versions(work.made_with, worker.address)
    use_threads(work.threads)
    os.environ.pop(PARENT, None)
    os.environ.update(work.environment)
    catalog = DataCatalog(datasets=dict(work.datasets))
    failure = None
    try:
        Task(work.node, catalog, False, hooks, work.run_id).execute()
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
    """Turn an error into one that can be sent.

    An error with its causes and its traceback may refer to itself, or be nested too deeply to be
    sent; the client would wait for ever.
    """
    plain = plain_error(error)
    if plain is not None:
        return click.ClickException(plain.message)
    return NodeError(f"{place}:\n{''.join(format_exception(error))}")


@cache
def _hooks(package: str) -> "PluginManager":
    """The project's hooks, without those of plugins: kedro-mlflow's would open its own runs."""
    project.configure_project(package)
    # Progress bars of methods would be drawn over the one that counts cells.
    os.environ["TTY_COMPATIBLE"] = "0"
    # The client shows the log and reports failures.
    logging.getLogger(package).propagate = False
    logging.getLogger("distributed.worker").addFilter(
        lambda record: not str(record.msg).startswith("Compute Failed")
    )
    return kedro_internals.hook_manager(project.settings.HOOKS)


def refuse_other_versions(wanted: Mapping[str, str], address: str) -> None:
    """Refuse to run a node with other code or packages than the client's.

    Raises:
        ParameterError: names what differs.
    """
    here = made_with()
    differing = [name for name, value in wanted.items() if here.get(name) != value]
    if differing:
        raise ParameterError(
            f"the Dask worker {address} has another version of {', '.join(differing)}: its results "
            "would differ. Install the same there"
        )
