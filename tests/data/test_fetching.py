import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from conle.data import fetching
from conle.data.fetching import fetch, is_known
from conle.errors import RawFileError

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
# Timeouts in seconds. The first is generous; the second lets a client give up soon.
PATIENCE, LITTLE_PATIENCE = (600.0, 600.0), (600.0, 8.0)
# The server stops after this number of bytes; a client loses incomplete pieces.
CUT = 2 * fetching.BYTES_AT_A_TIME


class Handler(BaseHTTPRequestHandler):
    """Serves one file, in one of several bad ways."""

    def do_GET(self):
        server = self.server
        server.requests.append(self.headers.get("Range"))
        way = server.ways.pop(0) if server.ways else "well"
        if isinstance(way, int):
            self.send_error(way)
            return
        body = server.content
        start = 0
        if self.headers.get("Range") and way != "without ranges":
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if way in ("cut off", "stalled"):
            self.wfile.write(body[start : start + CUT])
            self.wfile.flush()
            if way == "stalled":
                server.stopped.wait()
            return
        self.wfile.write(body[start:])

    def log_message(self, *arguments):
        """Log nothing."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching.pooch, "os_cache", lambda name: tmp_path / "cache")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.ways, server.requests = CONTENT, [], []
    server.stopped = threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.stopped.set()
    server.shutdown()
    server.server_close()


def get(server, patience=PATIENCE, **more):
    return fetch(server.url, "A.mat", SHA256, None, patience=patience, **more)


def cached(tmp_path):
    return [path.stat().st_size for path in (tmp_path / "cache").iterdir()]


def test_a_file(server, tmp_path):
    steps = []
    assert get(server, on_bytes=lambda *step: steps.append(step)) == CONTENT
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert cached(tmp_path) == []


@pytest.mark.parametrize(
    ("way", "patience"),
    [
        ("cut off", PATIENCE),
        pytest.param("stalled", LITTLE_PATIENCE, marks=pytest.mark.slow),
    ],
)
def test_it_goes_on_where_it_stopped(server, way, patience):
    server.ways = [way, way]
    assert get(server, patience) == CONTENT
    assert server.requests == [None, f"bytes={CUT}-", f"bytes={2 * CUT}-"]


def test_another_run_goes_on(server, tmp_path):
    server.ways = ["cut off"] * 2 + [503]
    with pytest.raises(RawFileError, match="503"):
        get(server)
    assert cached(tmp_path) == [2 * CUT]
    assert get(server) == CONTENT
    assert server.requests[-1] == f"bytes={2 * CUT}-"


def test_a_server_that_always_stops(server, tmp_path):
    server.ways = ["cut off"] * 3
    server.content = CONTENT + bytes(900_000)
    with pytest.raises(RawFileError, match=r"did not come in 3 attempts .*another run goes on"):
        get(server)
    assert cached(tmp_path) == [3 * CUT]


def test_a_server_without_ranges_starts_anew(server):
    server.ways = ["cut off", "without ranges"]
    assert get(server) == CONTENT


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_has_nothing(server, tmp_path, status):
    server.ways = [status]
    with pytest.raises(RawFileError, match=f"A.mat: {status}"):
        get(server)
    assert cached(tmp_path) == []


def test_a_wrong_file(server, tmp_path):
    server.content = b"<html>Please log in</html>"
    with pytest.raises(RawFileError, match="its checksum differs"):
        get(server)
    # A wrong file is not kept, so the next download begins anew.
    assert cached(tmp_path) == []


def test_a_server_that_sends_without_end(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "LARGEST_FILE", 100_000)
    with pytest.raises(RawFileError, match="sends more than 100,000 bytes: it is no such file"):
        fetch(server.url, "a.mat", SHA256, None, patience=PATIENCE)
    assert list((tmp_path / "cache").iterdir()) == []


def test_nobody_listens(server):
    server.shutdown()
    server.server_close()
    with pytest.raises(RawFileError, match="did not come in 3 attempts"):
        get(server)


def test_a_folder(tmp_path):
    (tmp_path / "A.mat").write_bytes(CONTENT)
    assert fetch(str(tmp_path), "A.mat", SHA256, None) == CONTENT
    with pytest.raises(RawFileError, match=r"B\.mat is missing"):
        fetch(str(tmp_path), "B.mat", SHA256, None)
    with pytest.raises(RawFileError, match="its checksum differs"):
        fetch(str(tmp_path), "A.mat", "0" * 64, None)


def test_ids_of_git():
    """`git hash-object` of a file with the line "hello"."""
    assert is_known(b"hello\n", None, "ce013625030ba8dba906f756967f9e9ca394464a")
    assert not is_known(b"hello", None, "ce013625030ba8dba906f756967f9e9ca394464a")


def test_files_that_are_there_are_verified(project, real_data):
    given = {"--pipelines": "fetch", "--tags": "SJAFFE", "--params": f"fetch_from={real_data}"}
    arguments = [word for pair in given.items() for word in pair]
    raw = project.folder / "data" / "01_raw" / "SJAFFE.mat"
    run = project.kedro("run", *arguments)
    assert run.returncode == 0, run.stderr
    assert raw.read_bytes() == (real_data / "SJAFFE.mat").read_bytes()
    assert "academic use" in run.stderr
    run = project.kedro("run", *arguments)
    assert "SJAFFE.mat is there and is right" in run.stderr
    raw.write_bytes(b"something else")
    run = project.kedro("run", *arguments)
    assert run.returncode == 1
    assert "data/01_raw/SJAFFE.mat is there and is not" in run.stderr
    assert "move it away" in run.stderr
    assert "Traceback" not in run.stderr
    assert raw.read_bytes() == b"something else"


@pytest.mark.slow
def test_files_come_into_the_folder_of_the_raw_files(project, real_data):
    run = project.kedro(
        "run",
        "--pipelines=fetch",
        "--tags=SJAFFE",
        f"--params=fetch_from={real_data},raw_dir=elsewhere",
    )
    assert run.returncode == 0, run.stderr
    fetched = project.folder / "elsewhere" / "SJAFFE.mat"
    assert fetched.read_bytes() == (real_data / "SJAFFE.mat").read_bytes()
    assert not (project.folder / "data" / "01_raw" / "SJAFFE.mat").exists()
