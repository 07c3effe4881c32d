"""Forwards TCP connections between two networks of this machine.

Usage: forwarder.py HOST:PORT TO_PORT [NAMESPACE_FILE]

Listens on HOST:PORT of the network in which it starts. Connects to 127.0.0.1:TO_PORT in the network namespace that
NAMESPACE_FILE names. Without a NAMESPACE_FILE, connects in the network in which it starts.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import sys
from contextlib import suppress

_NETWORK_NAMESPACE = 0x40000000  # CLONE_NEWNET of Linux


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()
    writer.close()


async def forward(listener: socket.socket, port: int) -> None:
    """Forward every connection of the listener to a port of the loopback interface."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, target_writer), _copy(target_reader, writer))

    server = await asyncio.start_server(serve, sock=listener)
    await server.serve_forever()


def enter_network(namespace_file: str) -> None:
    """Move this process to another network. A listening socket stays in the network in which it was created."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace_file, os.O_RDONLY)
    try:
        if library.setns(descriptor, _NETWORK_NAMESPACE):
            raise OSError(ctypes.get_errno(), "Could not enter the network namespace", namespace_file)
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    host, _, listening_port = sys.argv[1].partition(":")
    listening_socket = socket.create_server((host, int(listening_port)))
    if sys.argv[3:]:
        enter_network(sys.argv[3])
    asyncio.run(forward(listening_socket, int(sys.argv[2])))
