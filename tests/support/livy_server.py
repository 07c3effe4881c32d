"""A server that follows the contract of Livy's batches (`docs/rest-api.md` of Livy), and runs them by `spark-submit`.

Like a Livy with `livy.spark.deploy-mode = client`, the server runs `spark-submit` on its machine, with its environment
variables. It keeps the last 200 lines of the output, and accepts only files below the allowed folder. It rejects a
request without the header `X-Requested-By`. The texts of its errors are those of Livy 0.7.1.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.ports import SHUTDOWN_POLL_S

PATH_OF_EXAMPLE = "livy_of_example.LivySubmitter"
"""The dotted path of the example submitter, after `import_example`."""
_EXAMPLE = Path(__file__).resolve().parents[2] / "example_dags" / "submitters" / "livy.py"
_KEPT_LINES = 200
_OPTIONS = {
    "driverMemory": "--driver-memory",
    "executorMemory": "--executor-memory",
    "executorCores": "--executor-cores",
    "numExecutors": "--num-executors",
    "queue": "--queue",
    "proxyUser": "--proxy-user",
    "name": "--name",
}
_LISTS = {"pyFiles": "--py-files", "files": "--files", "jars": "--jars", "archives": "--archives"}


class Batch:
    """One process of `spark-submit`."""

    def __init__(self, number: int, body: Mapping[str, Any], master: str) -> None:
        self.number = number
        self.name = body.get("name")
        self.command = _command(body, master)
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self._lines.extend(line.rstrip("\n") for line in lines)
        self.process.wait()

    @property
    def state(self) -> str:
        if self._reader.is_alive():
            return "running"
        return "success" if self.process.returncode == 0 else "dead"

    @property
    def log(self) -> list[str]:
        return ["stdout: ", *self._lines, "\nstderr: "]

    def as_json(self) -> dict[str, Any]:
        return {"id": self.number, "name": self.name, "state": self.state, "appId": None, "appInfo": {}, "log": []}


class LivyServer:
    """The server. `batches` are the batches by their number; `deleted` has the numbers of deleted ones."""

    def __init__(self, allowed_folder: Path, master: str) -> None:
        self.batches: dict[int, Batch] = {}
        self.created: list[Batch] = []
        self.deleted: list[int] = []
        self.requests: list[str] = []
        self._allowed_folder = allowed_folder
        self._master = master
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                self._send(*server.get(urlsplit(self.path)))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if "X-Requested-By" not in self.headers:
                    self._send(400, "Missing Required Header for CSRF protection.")
                else:
                    self._send(*server.create(self.path, body))

            def do_DELETE(self) -> None:
                self._send(*server.delete(self.path))

            def _send(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def create(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        assert path == "/batches"
        files = [body["file"], *(file for name in _LISTS for file in body.get(name, []))]
        for file in files:
            if not file.startswith(f"file://{self._allowed_folder}/"):
                path = file.removeprefix("file://")
                return 400, f"requirement failed: Local path {path} cannot be added to user sessions."
        batch = Batch(len(self.created), body, self._master)
        self.created.append(batch)
        self.batches[batch.number] = batch
        return 201, batch.as_json()

    def get(self, url: Any) -> tuple[int, Any]:
        match = re.fullmatch(r"/batches/([0-9]+)(/log)?", url.path)
        assert match
        batch = self.batches.get(int(match[1]))
        if batch is None:
            return 404, {"msg": f"Session '{match[1]}' not found."}
        if not match[2]:
            return 200, batch.as_json()
        parameters = parse_qs(url.query)
        first, size = int(parameters["from"][0]), int(parameters["size"][0])
        log = batch.log
        return 200, {"id": batch.number, "from": first, "total": len(log), "log": log[first : first + size]}

    def delete(self, path: str) -> tuple[int, Any]:
        number = int(path.rpartition("/")[2])
        batch = self.batches.pop(number, None)
        if batch is None:
            return 404, {"msg": f"Session '{number}' not found."}
        batch.process.terminate()
        self.deleted.append(number)
        return 200, {"msg": "deleted"}


def _command(body: Mapping[str, Any], master: str) -> Sequence[str]:
    unknown_fields = body.keys() - _OPTIONS.keys() - _LISTS.keys() - {"file", "args", "conf"}
    assert not unknown_fields, f"Livy has no fields {unknown_fields}"
    program = shutil.which("spark-submit")
    assert program
    command = [program, "--master", master]
    for name, option in _OPTIONS.items():
        command += [option, str(body[name])] if name in body else []
    for name, option in _LISTS.items():
        command += [option, ",".join(file.removeprefix("file://") for file in body[name])] if name in body else []
    for name, value in body["conf"].items():
        command += ["--conf", f"{name}={value}"]
    return [*command, body["file"].removeprefix("file://"), *body["args"]]


def import_example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the example submitter for Livy until the end of the test, under a name that a dotted path can contain."""
    name = PATH_OF_EXAMPLE.partition(".")[0]
    spec = spec_from_file_location(name, _EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@contextmanager
def livy_server(allowed_folder: Path, *, master: str = "local[1]") -> Iterator[LivyServer]:
    """Run the server in the block. At the end it kills its batches."""
    server = LivyServer(allowed_folder, master)
    thread = threading.Thread(target=server.http.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()
        for batch in server.created:
            batch.process.kill()
            batch._reader.join()
