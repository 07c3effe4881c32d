"""A stand-in for YARN's ResourceManager: an HTTP server, and the line that announces its application."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.ports import SHUTDOWN_POLL_S

YARN_ID = "application_1700000000000_0001"
PRINT_YARN_ID = f"print('26/01/01 00:00:00 INFO YarnClientImpl: Submitted application {YARN_ID}')\n"
FAILED_STATE = {"state": "FAILED", "finalStatus": "FAILED", "diagnostics": "the driver was killed"}
MISSING_STATE = {"http_status": 404}
RUNNING_STATE = {"state": "RUNNING", "finalStatus": "UNDEFINED", "diagnostics": ""}


class ResourceManager:
    """A stand-in for YARN's REST service. It answers with each state of `answers` in turn, and repeats the last one.

    If a state has a function `before_answer`, the service calls it before it sends the answer. `status` is the HTTP
    status of these answers, unless a state has an `http_status`. With `shows_metrics` false, the service is not YARN's:
    it answers requests for the metrics of the cluster as all others.
    """

    def __init__(self) -> None:
        self.status = 200
        self.shows_metrics = True
        self.answers: list[dict] = []
        self.requested_paths: list[str] = []
        self.kill_paths: list[str] = []
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/ws/v1/cluster/metrics" and manager.shows_metrics:
                    self._send({"clusterMetrics": {"activeNodes": 2}})
                    return
                manager.requested_paths.append(self.path)
                answer = manager.answers.pop(0) if len(manager.answers) > 1 else manager.answers[0]
                if callable(before_answer := answer.get("before_answer")):
                    before_answer()
                app = {key: value for key, value in answer.items() if key != "before_answer"}
                self._send({"app": app}, answer.get("http_status", manager.status))

            def do_PUT(self):
                manager.kill_paths.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                self._send({"state": "KILLED"})

            def _send(self, body, status=200):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def finished_state(self, status="SUCCEEDED", *, diagnostics="", before_answer=None) -> dict:
        """The state of an application that has ended."""
        return {"state": "FINISHED", "finalStatus": status, "diagnostics": diagnostics, "before_answer": before_answer}

    @property
    def connection(self) -> str:
        """A Spark connection to this YARN, as JSON."""
        extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": self.address}
        return json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})


@contextmanager
def resource_manager() -> Iterator[ResourceManager]:
    """Run a ResourceManager in a thread."""
    manager = ResourceManager()
    thread = threading.Thread(target=manager.server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True)
    thread.start()
    try:
        yield manager
    finally:
        manager.server.shutdown()
        thread.join()
        manager.server.server_close()
