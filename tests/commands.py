"""Start commands as processes of their own, without the time that imports take."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).parents[1]
# A timeout in seconds that only a hanging process reaches.
GENEROUS = 900
# Test workers share the cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Command:
    """A process that a `CommandServer` has started, with the methods of `subprocess.Popen`.

    Attributes:
        pid: id of the process, which leads a process group.
        returncode: exit status, negative for a signal; None as long as it runs.
    """

    def __init__(self, connection, outputs):
        self._answers, self._outputs = connection, outputs
        self._lines = connection.makefile()
        self.pid, self.returncode = int(self._lines.readline()), None

    def poll(self):
        return self.wait(0)

    def wait(self, timeout=GENEROUS):
        if self.returncode is None and select.select([self._answers], [], [], timeout)[0]:
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._answers.close()
        if self.returncode is None and timeout:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def send_signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def output(self):
        """The text that the process has written so far to stdout and stderr."""
        return tuple(path.read_text(encoding="utf-8", errors="replace") for path in self._outputs)


class CommandServer:
    """Starts `kedro` and `dask` commands."""

    def __init__(self):
        self._folder = TemporaryDirectory(prefix="commands")
        self._address = f"{self._folder.name}/socket"
        self._started = 0
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("command_server.py"), self._address],
            # Kedro reads the configuration of logs from this folder.
            cwd=REPOSITORY,
            env=os.environ | ONE_THREAD,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"

    def _request(self, request, files=()):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        socket.send_fds(
            connection, [json.dumps(request).encode()], [file.fileno() for file in files]
        )
        return connection

    def start(self, *arguments, folder, **environment):
        """Start a command in a folder; variables are added to the environment of this process."""
        self._started += 1
        outputs = [
            Path(self._folder.name, f"{self._started}.{stream}") for stream in ("out", "err")
        ]
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(path.open("w")) for path in outputs]
            connection = self._request(
                {
                    "arguments": arguments,
                    "folder": str(folder),
                    "environment": os.environ | ONE_THREAD | environment,
                },
                files,
            )
        return Command(connection, outputs)

    def run(self, *arguments, folder, **environment):
        """Run a command to its end."""
        command = self.start(*arguments, folder=folder, **environment)
        command.wait()
        return subprocess.CompletedProcess(arguments, command.returncode, *command.output())

    def close(self):
        self._request(None).close()
        self._process.wait(GENEROUS)
        self._process.stdout.close()
        self._folder.cleanup()
