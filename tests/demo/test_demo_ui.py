"""Airflow's UI for the tables of the demonstration: it says where the page is, and stops all that it started."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest

from deltalite.storage.local import LocalLogStore
from tests.support.ports import free_ports
from tests.unit.builders import create

pytestmark = [pytest.mark.airflow, pytest.mark.slow]
PROGRAM = Path(__file__).resolve().parents[2] / "demo" / "run_ui.py"


def start_ui(home: Path, port: int) -> subprocess.Popen[str]:
    """Start the program as a user does."""
    command = [sys.executable, str(PROGRAM), "--home", str(home), "--port", str(port)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_without_a_demonstration_or_a_free_port_the_program_says_what_to_do(tmp_path):
    [port] = free_ports(1)
    output, error = start_ui(tmp_path, port).communicate(timeout=60)
    assert (output, error) == ("", f"{tmp_path} has no tables. Run 'make demo' first.\n")
    (tmp_path / "lake").mkdir()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        process = start_ui(tmp_path, listener.getsockname()[1])
        assert "--port 8081" in process.communicate(timeout=60)[1]
    assert process.returncode == 1


@pytest.mark.campaign
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_ui_shows_the_tables_of_the_demonstration_until_it_is_stopped(tmp_path, ending):
    for name in ("orders", "shop/gold/revenue"):
        create(LocalLogStore(str(tmp_path / "lake" / name)))
    [port] = free_ports(1)
    process = start_ui(tmp_path, port)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        assert lines[1] == f"The tables: http://127.0.0.1:{port}/plugin/delta-tables\n", process.communicate()
        url = f"http://127.0.0.1:{port}"
        with urlopen(f"{url}/auth/token", timeout=60) as answer:
            headers = {"Authorization": f"Bearer {json.loads(answer.read())['access_token']}"}
        with urlopen(Request(f"{url}/deltalite/lake", headers=headers), timeout=60) as answer:
            page = answer.read().decode()
        assert ">lake/orders</a>" in page and ">gold/revenue</a>" in page and "no table" not in page
        with urlopen(Request(f"{url}/api/v2/dags/table_maintenance", headers=headers), timeout=60) as answer:
            assert json.loads(answer.read())["is_paused"] is False
        servers = psutil.Process(process.pid).children(recursive=True)
        assert len(servers) >= 4
        process.send_signal(ending)
        output, error = process.communicate(timeout=60)
        assert (process.returncode, error) == (0, "") and "Airflow has stopped." in output
        assert [server for server in servers if server.is_running() and server.status() != psutil.STATUS_ZOMBIE] == []
    finally:
        process.kill()
