"""Free ports for the servers of tests."""

from __future__ import annotations

import socket


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
