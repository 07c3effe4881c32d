"""The demonstration in a process with another home folder, as a user runs it: once, and a second time."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite import DeltaTable

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

PROGRAM = Path(__file__).resolve().parents[2] / "demo" / "run_demo.py"


def run_demo(home: Path, *options: str) -> subprocess.CompletedProcess:
    """Run the demonstration in a process, and return the ended process."""
    command = [sys.executable, str(PROGRAM), "--home", str(home), "--orders", "300", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)


@pytest.mark.campaign
def test_a_demonstration_of_one_day_shows_the_waiting_sensor_the_commit_and_the_table(tmp_path):
    process = run_demo(tmp_path / "home of the demo", "--days", "1")
    assert process.returncode == 0, process.stdout + process.stderr
    assert len(re.findall(r"orders_report +its sensor is deferred", process.stdout)) == 1
    assert re.findall(r"orders_ingest +committed version (\d)", process.stdout) == ["0"]
    table = DeltaTable(str(tmp_path / "home of the demo" / "lake" / "orders"))
    assert table.version == 0 and table.to_arrow().num_rows > 0
    for title in ("History of", "Partitions of version 0", "A few rows", "Results of orders_report"):
        assert title in process.stdout


@pytest.mark.campaign
def test_a_demonstration_on_a_cluster_shows_its_applications_and_stops_its_servers(tmp_path):
    process = run_demo(tmp_path, "--days", "1", "--cluster", "standalone")
    assert process.returncode == 0, process.stdout + process.stderr
    (master,) = re.findall(r"a master and two workers run: spark://127\.0\.0\.1:(\d+)", process.stdout)
    assert re.findall(r"orders_ingest +committed version (\d)", process.stdout) == ["0"]
    assert re.findall(r"app-\d+-0000 .* FINISHED", process.stdout)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(master)), timeout=10)


@pytest.mark.campaign
def test_a_second_demonstration_writes_nothing_and_reports_skipped_runs(tmp_path):
    home = tmp_path / "home of the demo"
    first = run_demo(home)
    assert first.returncode == 0, first.stdout + first.stderr
    assert len(re.findall(r"orders_report +its sensor is deferred", first.stdout)) == 2
    assert re.findall(r"orders_ingest +committed version (\d)", first.stdout) == ["0", "1"]
    assert re.search(r"shop_lake load_orders +loaded 2 files", first.stdout)
    assert re.search(r"merge_orders +inserted \d+ orders, updated 0; 4 of 4 audits passed", first.stdout)
    table = DeltaTable(str(home / "lake" / "orders"))
    rows_before = table.to_arrow().num_rows
    files = sorted(path for path in (home / "lake").rglob("*") if path.is_file())

    second = run_demo(home)
    assert second.returncode == 0, second.stdout + second.stderr
    assert re.findall(r"orders_ingest +skipped: this run committed version (\d)", second.stdout) == ["0", "1"]
    assert "Nothing was written." in second.stdout
    assert len(re.findall(r"shop_lake load_\w+ +skipped: The table has loaded", second.stdout)) == 2
    assert re.search(r"shop_lake report +skipped", second.stdout)
    assert "shop_lake found nothing new" in second.stdout and "shop_lake found nothing new" not in first.stdout
    assert sorted(path for path in (home / "lake").rglob("*") if path.is_file()) == files
    table_after = DeltaTable(str(home / "lake" / "orders"))
    assert (table_after.version, table_after.to_arrow().num_rows) == (1, rows_before)
    titles = ("History of", "Partitions of version 1", "A few rows", "Results of orders_report", "Rejected lines")
    for title in (*titles, "Tables of shop_lake", "History of one customer", "Revenue of each day", "Maintenance"):
        assert title in first.stdout and title in second.stdout


def test_a_failure_prints_one_sentence_and_ends_with_a_nonzero_exit_code(tmp_path):
    home = tmp_path / "home"
    home.write_text("a file in place of the home folder")
    process = run_demo(home)
    assert process.returncode == 1
    assert "The demonstration failed." in process.stderr and str(home) in process.stderr
    assert "Traceback" not in process.stderr
