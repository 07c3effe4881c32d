"""The end of a job waits for Spark, and not for PySpark's server of accumulators."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from deltalite.spark.runtime.session import stop_session


class Session:
    """A session whose server of accumulators ends only after the session."""

    def __init__(self, address):
        self.session_has_stopped, self.server_has_ended, self.calls = threading.Event(), threading.Event(), []
        server = SimpleNamespace(server_address=address, shutdown=self._shut_down)
        self.sparkContext = SimpleNamespace(_accumulatorServer=server)

    def _shut_down(self):
        if not self.session_has_stopped.wait(20):
            self.calls.append("waited for the server")
        self.server_has_ended.set()

    def stop(self):
        self.calls.append("stop")
        self.session_has_stopped.set()
        if self.sparkContext._accumulatorServer is not None:
            self.calls.append("wait")


def test_the_end_does_not_wait_for_a_server_with_a_port():
    session = Session(("localhost", 1))
    stop_session(session)
    assert session.server_has_ended.wait(20)
    assert session.calls == ["stop"]


@pytest.mark.parametrize("address", ["/tmp/accumulators.sock", None])
def test_the_end_waits_for_any_other_server(address):
    session = Session(address)
    stop_session(session)
    assert session.calls == ["stop", "wait"]


def test_a_pyspark_without_this_server_stops():
    session = Session(None)
    del session.sparkContext._accumulatorServer
    session.stop = lambda: session.calls.append("stop")
    stop_session(session)
    assert session.calls == ["stop"]
