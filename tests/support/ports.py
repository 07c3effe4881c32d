"""Free ports for the servers of tests, and how soon these servers stop."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

SHUTDOWN_POLL_S = 0.02
"""The argument of `serve_forever`: `shutdown()` waits up to this time in seconds. The default is half a second."""

_PORTS = range(20_000, 30_000)


def free_ports(count: int) -> list[int]:
    """The numbers of `count` ports that no process uses at this moment.

    Some servers take their port half a minute later. Until then, the system must not give it to an outgoing connection.
    Linux and macOS choose the ports of outgoing connections from higher ranges. Processes that call this function at
    the same time choose at random, so that they hardly ever choose the same port.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().choice(_PORTS)
        if port not in ports and _is_free(port):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as listener, suppress(OSError):
        listener.bind(("127.0.0.1", port))
        return True
    return False
