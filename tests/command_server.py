"""Starts commands as processes in which everything is imported already.

Imports take most of the time of a short command. This server imports once what a `kedro` command
or a Dask process needs, and forks itself for each command: a process of its own, with a session,
a folder, an environment and files for its output, which tests may signal and kill.
"""

import importlib
import json
import os
import select
import signal
import socket
import sys

import dask
from distributed.config import initialize_logging

MODULES = (
    "conle.cli",
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_worker",
    "kedro.framework.cli.cli",
    "kedro_datasets.matlab",
    "kedro_datasets.pandas",
    "kedro_mlflow.framework.hooks.mlflow_hook",
    "matplotlib.pyplot",
    "mlflow.pyfunc",
    "mlflow.store.tracking.sqlalchemy_store",
    "sklearn.linear_model",
    "torch",
)
SECONDS_BETWEEN_LOOKS = 5
MAINS = {"kedro": "kedro.framework.cli.cli:main", "dask": "dask.__main__:main"}
# Signal handlers of a new process, which Python and this server change.
SIGNALS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGCHLD: signal.SIG_DFL,
}


def run(arguments, folder, environment, outputs):
    """Become the process of a command; never returns."""
    os.setsid()
    for number, handler in SIGNALS.items():
        signal.signal(number, handler)
    for target, output in zip((1, 2), outputs, strict=True):
        os.dup2(output, target)
        os.close(output)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # Dask read its variables when it was imported, in another environment.
    dask.config.refresh()
    initialize_logging(dask.config.config)
    sys.argv = arguments
    module, _, name = MAINS[arguments[0]].partition(":")
    sys.exit(getattr(importlib.import_module(module), name)())


def look_after(connection, request, outputs):
    """Fork a process for the command; send its id at once, and its exit status at its end.

    Only the forked process returns, to run the command; the other one exits.

    Returns:
        True.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        return True
    connection.sendall(f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def serve(path):
    for name in MODULES:
        importlib.import_module(name)
    # The kernel removes finished processes that look after commands: the server does not wait.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    print("ready", flush=True)
    tests = os.getppid()
    while True:
        # Killed tests send no request to end.
        while not select.select([server], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            if os.getppid() != tests:
                return
        connection, _ = server.accept()
        message, outputs, _, _ = socket.recv_fds(connection, 1_000_000, 2)
        request = json.loads(message)
        if request is None:
            return
        if os.fork() == 0:
            server.close()
            look_after(connection, request, outputs)
            connection.close()
            run(**request, outputs=outputs)
        connection.close()
        for output in outputs:
            os.close(output)


if __name__ == "__main__":
    serve(sys.argv[1])
