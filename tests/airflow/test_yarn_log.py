"""The log of a driver in YARN, read from a stand-in for YARN's REST services. tests/clusters uses a real YARN."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from airflow_provider_deltalite.clusters import yarn_log
from airflow_provider_deltalite.clusters.yarn_log import DriverLogError, read_yarn_driver_log
from tests.support.ports import SHUTDOWN_POLL_S

YARN_ID = "application_1700000000000_0001"
CONTAINER = "container_1700000000000_0001_01_000001"
FRAMED_LOG = "Container: x\nLogContents:\n{}\nEnd of LogType:{}.\n*****\n"


@pytest.fixture
def services():
    """An HTTP server. Yields a dictionary of its answers by the beginning of the path, and its address."""
    answers: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = next((text for path, text in answers.items() if self.path.startswith(path)), None)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode("utf-8", "surrogateescape"))

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(SHUTDOWN_POLL_S,))
    thread.start()
    yield answers, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def application(address: str) -> str:
    """The ResourceManager's answer for an application whose NodeManager has this address."""
    return json.dumps({"app": {"amContainerLogs": f"{address}/node/containerlogs/{CONTAINER}/root"}})


def test_the_log_has_the_lines_of_stderr_and_then_of_stdout_without_their_frames(services):
    answers, address = services
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application(address)
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/stderr"] = FRAMED_LOG.format("a\nEnd of LogType: b", "stderr")
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/stdout"] = "plain \udcff"
    assert read_yarn_driver_log(address, YARN_ID) == ["a", "End of LogType: b", "plain \ufffd"]


def test_a_long_log_loses_its_first_lines(services, monkeypatch):
    answers, address = services
    monkeypatch.setattr(yarn_log, "MAX_BYTES", 100_000)
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application(address)
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/stderr"] = "x\n" * 500_000 + "end"
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/stdout"] = ""
    lines = read_yarn_driver_log(address, YARN_ID)
    assert lines[-1] == "end" and 90_000 < len(lines) <= 100_000


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("not json", "describes no application"),
        ("[]", "describes no application"),
        ('{"app": 3}', "describes no application"),
        ("{}", "describes no application"),
        ('{"app": {}}', "names no address"),
        ('{"app": {"amContainerLogs": "http://[/container_1"}}', "names no address"),
        (None, "HTTP 404"),
    ],
)
def test_an_answer_without_a_driver_is_an_error_with_its_reason(services, answer, problem):
    answers, address = services
    if answer is not None:
        answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = answer
    with pytest.raises(DriverLogError, match=problem):
        read_yarn_driver_log(address, YARN_ID)


def test_only_line_breaks_end_a_line_and_a_long_line_comes_in_parts(services, monkeypatch):
    answers, address = services
    monkeypatch.setattr(yarn_log, "_PAUSE_SECONDS", 0)
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application(address)
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/stdout"] = "a\u2028b\x0cc\r\n" + "x" * 40_000
    lines = read_yarn_driver_log(address, YARN_ID)
    assert lines[0] == "a\u2028b\x0cc" and len(lines) == 4 and lines[2].startswith(" ")


def test_no_error_shows_the_password_of_an_address(services):
    _, address = services
    with pytest.raises(DriverLogError) as caught:
        read_yarn_driver_log(address.replace("http://", "http://user:planted@"), YARN_ID)
    assert "planted" not in str(caught.value) and "HTTP 404" in str(caught.value)


def test_one_missing_file_does_not_hide_the_lines_of_the_other_file(services, monkeypatch):
    answers, address = services
    monkeypatch.setattr(yarn_log, "_PAUSE_SECONDS", 0)
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application(address)
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/stdout"] = FRAMED_LOG.format("result", "stdout")
    assert read_yarn_driver_log(address, YARN_ID) == ["result"]


def test_missing_files_and_a_silent_server_are_errors(services, monkeypatch):
    answers, address = services
    monkeypatch.setattr(yarn_log, "_PAUSE_SECONDS", 0)
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application(address)
    with pytest.raises(DriverLogError, match="HTTP 404"):
        read_yarn_driver_log(address, YARN_ID)
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application("http://127.0.0.1:1")
    with pytest.raises(DriverLogError, match="did not answer"):
        read_yarn_driver_log(address, YARN_ID)


def test_a_log_server_without_the_log_is_an_error(services, monkeypatch):
    answers, address = services
    monkeypatch.setattr(yarn_log, "_PAUSE_SECONDS", 0)
    answers[f"/ws/v1/cluster/apps/{YARN_ID}"] = application(address)
    answers[f"/ws/v1/node/containers/{CONTAINER}/logs/"] = f"Can not find logs for container:{CONTAINER}"
    with pytest.raises(DriverLogError, match=f"has no log: Can not find logs for container:{CONTAINER}"):
        read_yarn_driver_log(address, YARN_ID)
