"""A proxy between a client and an HTTP server of the tests. It records requests, and replaces answers.

A client connects to the proxy as if the proxy were the server. The proxy forwards each request unchanged. A test sets
`fault`, a function that decides for each request whether its answer is replaced.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.ports import SHUTDOWN_POLL_S

_CONNECTION_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
_NO_BODY_STATUSES = frozenset({204, 304})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a client. `path` is decoded and has no query."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def is_conditional_put(self) -> bool:
        """Whether the server must reject the request if the object exists.

        A client of Google Cloud Storage gives the condition in the request that starts the upload.
        """
        return self.method == "PUT" and (self.headers.get("if-none-match") == "*" or self.upload_id is not None)

    @property
    def object_name(self) -> str:
        """The path, or the name in the query of an upload to Google Cloud Storage."""
        return self._parameter("name") or self.path

    @property
    def upload_id(self) -> str | None:
        """The resumable upload to Google Cloud Storage that the request belongs to."""
        return self._parameter("upload_id")

    def _parameter(self, name: str) -> str | None:
        return next(iter(parse_qs(self.query).get(name, ())), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that the proxy sends instead of the server's. The request does not reach the server."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Loss(Enum):
    """A closed connection instead of an answer."""

    REQUEST = auto()
    """The request does not reach the server."""
    ANSWER = auto()
    """The server executes the request, but the client gets no answer."""


Fault = Callable[[Request], Answer | Loss | None]


class StandIn(Protocol):
    """Answers requests that an emulator cannot answer."""

    def answer_to(self, request: Request) -> Answer | None:
        """Return the answer, or None for the answer of the server."""

    def record(self, request: Request, answer: Answer) -> None:
        """Record an answer of the server."""


class HttpProxy:
    """A running proxy.

    Attributes:
        requests: the requests that the proxy received, in order, including those with a replaced answer.
        fault: the function that replaces answers, None for no faults. It runs in the threads of the proxy.
    """

    def __init__(self, server_port: int, stand_in: StandIn | None = None) -> None:
        self.server_port = server_port
        self.stand_in = stand_in
        self.requests: list[Request] = []
        self.fault: Fault | None = None
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(SHUTDOWN_POLL_S,), daemon=True)

    @property
    def port(self) -> int:
        """The port to which clients connect."""
        return int(self._server.server_address[1])

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[Request]]:
        """Yield an empty list. The end of the block adds the requests that the proxy received during the block."""
        recorded: list[Request] = []
        first = len(self.requests)
        try:
            yield recorded
        finally:
            recorded += self.requests[first:]

    @contextlib.contextmanager
    def faults(self, fault: Fault) -> Iterator[None]:
        """Replace answers in the block."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    def start(self) -> None:
        """Start accepting connections."""
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting connections."""
        self._server.shutdown()
        self._server.server_close()


def first_times(count: int, outcome: Answer | Loss, matches: Callable[[Request], bool]) -> Fault:
    """Return a fault for the first `count` requests that match."""
    remaining_outcomes, lock = [outcome] * count, threading.Lock()

    def fault(request: Request) -> Answer | Loss | None:
        with lock:
            return remaining_outcomes.pop() if remaining_outcomes and matches(request) else None

    return fault


@contextlib.contextmanager
def http_proxy(server_port: int, stand_in: StandIn | None = None) -> Iterator[HttpProxy]:
    """Run a proxy for the server at a port of this machine."""
    proxy = HttpProxy(server_port, stand_in)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: HttpProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close their connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self._upstream = http.client.HTTPConnection("127.0.0.1", self.server.proxy.server_port, timeout=120)

    def finish(self) -> None:
        self._upstream.close()
        super().finish()

    def log_message(self, *_: Any) -> None:
        """Write no log."""

    def _forward(self) -> None:
        address = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(
            method=self.command, path=unquote(address.path), query=unquote(address.query), headers=headers
        )
        body = self._body(headers)
        proxy = self.server.proxy
        proxy.requests.append(request)
        outcome = proxy.fault(request) if proxy.fault else None
        if outcome is None and proxy.stand_in:
            outcome = proxy.stand_in.answer_to(request)
        if outcome is Loss.REQUEST:
            self.close_connection = True
        elif isinstance(outcome, Answer):
            self._answer(outcome.status, dict(outcome.headers), outcome.body)
        else:
            answer = self._send(body)
            content = answer.read()
            if proxy.stand_in:
                headers = dict(answer.getheaders())
                proxy.stand_in.record(request, Answer(status=answer.status, body=content, headers=headers))
            if outcome is Loss.ANSWER:
                self.close_connection = True
            else:
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self._answer(answer.status, answer.getheaders(), content, length)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _forward  # noqa: N815  names of the base class

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(headers.get("content-length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _send(self, body: bytes) -> http.client.HTTPResponse:
        """Send the request to the server, and again if the server has closed an idle connection."""
        headers = [
            (name, value)
            for name, value in self.headers.items()
            if name.lower() not in _CONNECTION_HEADERS and name.lower() != "expect"
        ]
        for is_last in (False, True):
            try:
                self._upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in headers:
                    self._upstream.putheader(name, value)
                self._upstream.putheader("Content-Length", str(len(body)))
                self._upstream.endheaders(body)
                return self._upstream.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self._upstream.close()
                if is_last:
                    raise
        raise AssertionError

    def _answer(self, status: int, headers: Any, body: bytes, length: str | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items() if isinstance(headers, dict) else headers:
            if name.lower() not in _CONNECTION_HEADERS:
                self.send_header(name, value)
        if status not in _NO_BODY_STATUSES:
            self.send_header("Content-Length", str(len(body)) if length is None else length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
