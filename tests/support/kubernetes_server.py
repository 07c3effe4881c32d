"""A server that answers as the API server of Kubernetes does."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from airflow.providers.cncf.kubernetes import kube_client

from tests.support.ports import SHUTDOWN_POLL_S

POD = {"metadata": {"name": "load-driver", "uid": "0d1e2f"}, "spec": {"containers": [{"name": "main"}]}}


def pod_in(phase: str) -> str:
    """The API server's answer for a pod in this phase."""
    return json.dumps({**POD, "status": {"phase": phase}})


class ApiServer:
    """Answers each request with `status` and `body`."""

    def __init__(self, port: int = 0) -> None:
        self.status, self.body = 200, json.dumps(POD)
        self.paths: list[str] = []
        self.deleted_paths: list[str] = []
        api_server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                api_server.paths.append(self.path)
                data = api_server.body.encode()
                self.send_response(api_server.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_DELETE(self):
                api_server.deleted_paths.append(self.path)
                self.do_GET()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


def use_api_server(monkeypatch: pytest.MonkeyPatch, port: int, folder: Path) -> None:
    """Let Airflow's client connect to the API server at a port of this machine. Its kubeconfig is in `folder`."""
    kubeconfig, get_kube_client = str(kubeconfig_of(port, folder)), kube_client.get_kube_client
    client = lambda: get_kube_client(in_cluster=False, config_file=kubeconfig)
    monkeypatch.setattr(kube_client, "get_kube_client", client)


def kubeconfig_of(port: int, folder: Path) -> Path:
    """Write the file that names the cluster at a port of this machine, and return its path."""
    kubeconfig = folder / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users, clusters = [{"name": "u", "user": {}}], [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}]
    kubeconfig.write_text(
        json.dumps({"clusters": clusters, "users": users, "contexts": [context], "current-context": "c"})
    )
    return kubeconfig
