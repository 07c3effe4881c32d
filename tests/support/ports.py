"""Free ports for the servers of tests, and how soon these servers stop."""

from __future__ import annotations

import socket

SHUTDOWN_POLL_S = 0.02
"""The argument of `serve_forever`: `shutdown()` waits up to this time in seconds. The default is half a second."""


def free_ports(count: int) -> list[int]:
    """The numbers of `count` ports that no process uses at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()
