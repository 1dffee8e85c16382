"""Pipelines on a Dask cluster, whose workers, clients and schedulers die."""

import os
import random
import re
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import fsspec
import mlflow
import psutil
import pytest
import yaml
from broken_runs import (
    CELLS,
    SEVERAL,
    STEPS,
    cells_recovered,
    ended,
    finish,
    finished_cells,
    left_behind,
    nothing_is_half_written,
    results,
    start,
    wait_until,
    with_datasets,
)
from distributed import Security

from conle.methods.registry import ABLATIONS, BASELINES, REFERENCES

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")

DASK = "--runner=conle.dask_runner.DaskRunner"
# Workers are forked from a process that has imported their modules.
FORK = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "fork"}
# Workers have one thread each by default.
ONE_THREAD = f"{SEVERAL},threads=1"
PRELOAD = Path(__file__).with_name("mortal_workers.py")
# One death of a node's own; others it is suspected of.
SETTINGS = {
    "DASK_LOGGING__DISTRIBUTED": "info",
    **FORK,
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
}
# Entries with times or processes, which differ between runs.
MEASURED = ("cost.json", "run.json")


def configure(project, **options):
    (project.folder / "conf" / "local" / "dask.yml").write_text(yaml.safe_dump(options))


class Cluster:
    """A scheduler and workers in separate processes."""

    def __init__(self, commands, folder, *options):
        self.commands, self.folder = commands, folder
        self.processes = []
        self.scheduler = self.start_scheduler("--port=0", *options)
        wait_until(lambda: self.address, self.scheduler)

    @property
    def address(self):
        found = re.search(r"Scheduler at: +(\S+)", self.scheduler.output()[1])
        return found and found[1]

    def begin(self, *arguments, **environment):
        command = self.commands.start(
            "dask",
            *arguments,
            folder=self.folder,
            MORTAL_FOLDER=str(self.folder),
            **(SETTINGS | environment),
        )
        self.processes.append(command)
        return command

    def start_scheduler(self, port, *arguments):
        return self.begin("scheduler", "--host=127.0.0.1", port, "--no-dashboard", *arguments)

    def start_workers(self, number=2, name="worker", *arguments, **environment):
        return self.begin(
            "worker",
            self.address,
            f"--nworkers={number}",
            "--nthreads=1",
            f"--preload={PRELOAD}",
            "--no-dashboard",
            *arguments,
            MORTAL_NAME=name,
            **environment,
        )

    def restart(self):
        """Start a new scheduler with new workers."""
        self.close()
        self.scheduler = self.start_scheduler("--port=0")
        wait_until(lambda: self.address, self.scheduler)
        self.start_workers()

    def wait_for_workers(self, number):
        wait_until(lambda: self.scheduler.output()[1].count("Register worker") == number)

    def worker_pids(self):
        """Ids of the processes that run nodes, below their nannies."""
        return [
            child.pid
            for process in self.processes
            if process is not self.scheduler and process.poll() is None
            for child in psutil.Process(process.pid).children(recursive=True)
            # Names of processes depend on whether setproctitle is installed.
            if "resource_tracker" not in " ".join(child.cmdline())
        ]

    def begun(self):
        """How often every node was begun."""
        return Counter(node for node, _ in self.places())

    def places(self):
        """Every node that was begun, and the name of its worker."""
        return [line.split() for line in (self.folder / "begun").read_text().splitlines()]

    def perished(self):
        return {
            path.name.split(".")[0] for path in self.folder.glob("*.*") if path.suffix != ".log"
        }

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path_factory, commands):
    cluster = Cluster(commands, tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def sequential(shared_project, toy_datasets):
    """A project after a run without Dask."""

    def fill(project):
        return with_datasets(project, toy_datasets).run(datasets="One+Two", threads=1, **STEPS)

    project, run = shared_project("sequential", fill)
    assert run.returncode == 0, run.stderr
    return project


def twin(project, sequential):
    """A project with the same files."""
    for path in (sequential.folder / "data" / "01_raw").iterdir():
        shutil.copy(path, project.folder / "data" / "01_raw")
    return project


@pytest.fixture
def several(project, sequential):
    return twin(project, sequential)


def under_way(project, cluster, cells, **options):
    """Start a run, and wait until it has finished this number of cells."""
    configure(project, address=cluster.address, **options)
    cluster.start_workers()
    command = start(project, ONE_THREAD, DASK)
    wait_until(lambda: len(finished_cells(project)) >= cells, command)
    return command


def artifacts(project):
    """The last version of every artifact."""
    newest = {}
    for path in sorted((project.folder / "data").rglob("*")):
        if path.is_file() and path.parents[1].name == path.name and path.name not in MEASURED:
            newest[path.parents[1].relative_to(project.folder)] = path.read_bytes()
    return newest


def tracked(project):
    client = mlflow.MlflowClient(f"sqlite:///{project.folder}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'conle'")
    return client.search_runs([experiment.experiment_id])


def as_without_dask(project, sequential):
    """Check for the same bytes, one closed MLflow run per cell, and no partial files."""
    mine, theirs = artifacts(project), artifacts(sequential)
    assert mine.keys() == theirs.keys()
    assert [str(name) for name in mine if mine[name] != theirs[name]] == []
    runs = tracked(project)
    cells = Counter(run.info.run_name for run in runs if "mlflow.parentRunId" in run.data.tags)
    assert set(cells.values()) == {1}
    assert len(cells) == CELLS
    assert {run.info.status for run in runs} == {"FINISHED"}
    described = {run.info.run_name: run.data.params for run in runs if run.info.run_name in cells}
    assert described == {
        run.info.run_name: run.data.params
        for run in tracked(sequential)
        if run.info.run_name in cells
    }
    nothing_is_half_written(project)


def test_a_cluster_of_this_machine(several, sequential):
    code, output = finish(several, ONE_THREAD, DASK, **FORK)
    assert code == 0, output
    as_without_dask(several, sequential)
    assert "dashboard at http://127.0.0.1:" in output
    assert f"({CELLS} of {CELLS} cells)" in output
    # Dask logs nothing of its own.
    assert "worker" not in re.sub(r"\d+ workers?, dashboard", "", output)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("before", marks=pytest.mark.long),
        pytest.param("unsaved", marks=pytest.mark.long),
        "half",
    ],
)
def test_every_kind_of_node_kills_its_worker(several, sequential, cluster, moment):
    configure(several, address=cluster.address)
    cluster.start_workers(MORTAL_NODES=".*", MORTAL_MOMENT=moment)
    code, output = finish(several, ONE_THREAD, DASK)
    assert code == 0, output
    as_without_dask(several, sequential)
    kinds = {name.rpartition(".")[2] for name in cluster.begun()}
    assert len(kinds) == 11
    assert cluster.perished() == kinds
    # Each of these nodes runs once more, and no finished node does.
    again = [name for name, times in cluster.begun().items() if times > 1]
    assert len(again) == len(kinds)
    assert {name.rpartition(".")[2] for name in again} == kinds


def resumed(project, sequential, finished):
    """The same command does the rest, and no finished cell again."""
    code, output = finish(project, ONE_THREAD, DASK, "--resume")
    assert code == 0, output
    assert not cells_recovered(output) & finished
    assert results(project) == results(sequential)
    assert "RUNNING" not in {run.info.status for run in tracked(project)}
    nothing_is_half_written(project)


@pytest.mark.slow
def test_a_client_that_is_killed(several, sequential, cluster):
    command = under_way(several, cluster, 3)
    command.kill()
    command.wait()
    resumed(several, sequential, finished_cells(several))


@pytest.mark.slow
def test_a_scheduler_that_is_lost(several, sequential, cluster):
    command = under_way(several, cluster, 3)
    cluster.scheduler.kill()
    code, output = ended(command)
    assert code == 1
    assert "is lost. Finished work is kept" in output
    assert "Traceback" not in output
    assert "RUNNING" not in {run.info.status for run in tracked(several)}
    cluster.restart()
    configure(several, address=cluster.address)
    resumed(several, sequential, finished_cells(several))


@pytest.mark.slow
def test_a_cell_that_kills_every_worker_leaves_the_others(several, cluster):
    configure(several, address=cluster.address)
    # The cell saves one of its outputs before each death.
    cluster.start_workers(MORTAL_NODES="One.conle.recover", MORTAL_MOMENT="always")
    code, output = finish(several, ONE_THREAD, DASK)
    assert code == 1
    assert "1 of 8 cells have failed, all others are done:" in output
    assert re.search(r"One conle: [23] workers have died of it", output)
    assert "Traceback" not in output
    runs = {run.info.run_name: run.info.status for run in tracked(several)}
    assert runs.pop("One conle") == runs.pop("conle, One+Two, 1 x 3 folds") == "FAILED"
    assert set(runs.values()) == {"FINISHED"}
    assert len(runs) == CELLS - 1


@pytest.mark.slow
def test_trained_methods_go_to_a_gpu_if_there_is_one(several, cluster):
    configure(several, address=cluster.address, resources={"gpu": {"GPU": 1}, "memory": {"RAM": 9}})
    cluster.start_workers(1, "plain")
    cluster.start_workers(1, "graphics", "--resources=GPU=1")
    cluster.wait_for_workers(2)
    few = f"--params={ONE_THREAD},datasets=One,levi_mlp.epochs=5,lible.epochs=5"
    # The last node reads the outputs of the others.
    outcomes = [
        several.kedro("run", f"--pipelines={name}", DASK, few)
        for name in ("ablation", "baselines", "report")
    ]
    assert [outcome.returncode for outcome in outcomes] == [0, 0, 0], outcomes
    places = {
        name.split(".")[1]: place for name, place in cluster.places() if name.endswith(".recover")
    }
    assert {places[name] for name in ("conle", *ABLATIONS, "levi_mlp", "lible")} == {"graphics"}
    # No worker offers this resource, so any worker takes the node.
    assert set(places) == {"conle", *ABLATIONS, *BASELINES, *REFERENCES}


@pytest.mark.slow
def test_an_object_store(several, sequential, cluster, object_store, bucket):
    """Workers share nothing but a server that speaks S3."""
    files = fsspec.filesystem("s3", use_listings_cache=False)
    files.put(f"{several.folder}/data/01_raw", f"{bucket}/raw", recursive=True)
    shutil.rmtree(several.folder / "data")
    (several.folder / "conf" / "local" / "globals.yml").write_text(
        f"artifacts: {bucket}/project\nraw_dir: {bucket}/raw\n"
    )
    configure(several, address=cluster.address)
    cluster.start_workers(MORTAL_NODES="recover|score", MORTAL_MOMENT="half", **object_store)
    code, output = finish(several, ONE_THREAD, DASK)
    assert code == 0, output
    assert cluster.perished() == {"recover", "score"}
    assert "Results   s3://bucket/project/08_reporting/results.parquet/" in output
    assert not (several.folder / "data").exists()
    code, output = finish(several, ONE_THREAD, DASK, "--resume")
    assert code == 0, output
    assert "No run of this pipeline is unfinished" in output
    files.get(f"{bucket}/project", f"{several.folder}/data", recursive=True)
    shutil.rmtree(several.folder / "data" / "01_raw", ignore_errors=True)
    mine, theirs = artifacts(several), artifacts(sequential)
    assert mine == theirs
    assert {run.info.status for run in tracked(several)} == {"FINISHED"}
    recovered = [
        artifact.path
        for run in tracked(several)
        for artifact in mlflow.MlflowClient(f"sqlite:///{several.folder}/mlflow.db").list_artifacts(
            run.info.run_id, "recovered"
        )
    ]
    assert len(recovered) == 2 * CELLS


@pytest.mark.slow
def test_a_cluster_with_tls(several, tmp_path):
    keys = Security.temporary()
    files = {
        "ca_file": (tmp_path / "ca.pem", keys.tls_ca_file),
        "cert": (tmp_path / "cert.pem", keys.tls_client_cert),
        "key": (tmp_path / "key.pem", keys.tls_client_key),
    }
    for path, content in files.values():
        path.write_text(content)
    tls = {name: str(path) for name, (path, _) in files.items()}
    options = [f"--tls-{name.replace('_', '-')}={path}" for name, path in tls.items()]
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(several.commands, tmp_path / "cluster", *options)
    try:
        assert cluster.address.startswith("tls://")
        cluster.start_workers(2, "worker", *options)
        configure(several, address=cluster.address, tls=tls)
        (several.folder / "conf" / "without").mkdir()
        (several.folder / "conf" / "without" / "dask.yml").write_text(
            f"address: {cluster.address.replace('tls', 'tcp')}\ntls: null\npatience: 1"
        )
        run = ("run", "--pipelines=ingestion", DASK, f"--params={ONE_THREAD}")
        done, refused = several.kedro(*run), several.kedro(*run, "--env=without")
    finally:
        cluster.close()
    assert done.returncode == 0, done.stdout + done.stderr
    assert refused.returncode == 1
    assert "does not answer" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_what_a_user_has_to_be_told(several, tmp_path_factory):
    """Each mistake ends in one message."""
    clusters = [Cluster(several.commands, tmp_path_factory.mktemp("cluster")) for _ in range(2)]
    try:
        clusters[0].start_workers(1, "worker", "--nthreads=2")
        clusters[1].start_workers(1, MORTAL_VERSION="0")
        messages = {
            "addres: null\ntls: {ca_file: gone.pem, cert: gone.pem}\nworkers: 0": (
                "These options in dask.yml cannot be used:",
                "addres: Extra inputs are not permitted",
                "tls.ca_file: Path does not point to a file (given: 'gone.pem')",
                "tls.key: Field required",
                "workers: Input should be greater than or equal to 1 (given: 0)",
            ),
            "address: tls://127.0.0.1:9": (
                "tls is for an address that begins with tls://, which needs it",
            ),
            "address: tcp://127.0.0.1:9\npatience: 1": (
                "the Dask scheduler at tcp://127.0.0.1:9 does not answer",
                "start it (dask scheduler), or name another in conf/local/dask.yml",
            ),
            "address: 'nonsense://here'\npatience: 1": (
                "the Dask scheduler at nonsense://here does not answer",
            ),
            f"address: {clusters[0].address}": (
                "has 2 threads; methods have threads of their own: start it with --nthreads 1",
            ),
            f"address: {clusters[1].address}": (
                "has another version of numpy: its results would differ",
            ),
            "address: null": ("Two.mat is not a MATLAB file, or is damaged",),
        }
        (several.folder / "data" / "01_raw" / "Two.mat").write_bytes(b"MATLAB no more")
        commands = []
        for number, content in enumerate(messages):
            folder = several.folder / "conf" / f"env{number}"
            folder.mkdir()
            (folder / "dask.yml").write_text(content)
            options = (f"--env=env{number}", DASK, f"--params={ONE_THREAD}")
            commands.append(("run", "--pipelines=conle", *options))
        outcomes = [several.kedro(*command) for command in commands]
    finally:
        for cluster in clusters:
            cluster.close()
    for outcome, expected in zip(outcomes, messages.values(), strict=True):
        assert outcome.returncode == 1
        for message in expected:
            assert message in outcome.stderr
        assert "Traceback" not in outcome.stdout + outcome.stderr
    assert not list(several.folder.glob("data/07_model_output/Two"))
    assert "RUNNING" not in {run.info.status for run in tracked(several)}
    wait_until(lambda: not left_behind(several))


@pytest.mark.long
@pytest.mark.parametrize("victim", ["worker", "client"])
def test_twenty_random_moments(new_project, sequential, victim):
    moments = random.Random(victim)
    for _ in range(20):
        project = twin(new_project(), sequential)
        cluster = Cluster(project.commands, project.folder)
        try:
            configure(project, address=cluster.address)
            cluster.start_workers()
            # A worker that dies before it is connected ends the workers that were started with it.
            cluster.wait_for_workers(2)
            command = start(project, ONE_THREAD, DASK)
            files, data = moments.randrange(100), project.folder / "data"
            wait_until(
                lambda data=data, files=files, command=command: (
                    command.poll() is not None
                    or sum(path.is_file() for path in data.rglob("*")) >= files
                )
            )
            if victim == "worker":
                os.kill(moments.choice(cluster.worker_pids()), signal.SIGKILL)
                code, output = ended(command)
                assert code == 0, output
                as_without_dask(project, sequential)
            elif command.poll() is None:
                command.kill()
                command.wait()
                resumed(project, sequential, finished_cells(project))
        finally:
            cluster.close()
        print(f"{victim} killed after {files} files: done")


@pytest.mark.slow
def test_ctrl_c(several):
    command = start(several, ONE_THREAD, DASK, **FORK)
    wait_until(lambda: finished_cells(several), command)
    os.killpg(command.pid, signal.SIGINT)
    assert command.wait() != 0
    assert "RUNNING" not in {run.info.status for run in tracked(several)}
    wait_until(lambda: not left_behind(several))
