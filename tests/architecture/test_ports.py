"""A port for a server of a test stays free until the server takes it."""

from __future__ import annotations

import socket

from tests.support.ports import free_ports


def test_the_system_does_not_give_a_free_port_to_an_outgoing_connection():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert max(free_ports(1000)) < client.getsockname()[1]


def test_a_port_of_a_server_is_not_free(monkeypatch):
    used_port, free_port = free_ports(2)
    monkeypatch.setattr("tests.support.ports._PORTS", [used_port, free_port])
    with socket.create_server(("127.0.0.1", used_port)):
        assert {free_ports(1)[0] for _ in range(20)} == {free_port}
