"""The demonstration as a user runs it, twice, as another process with another home folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite import DeltaTable

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

PROGRAM = Path(__file__).resolve().parents[2] / "demo" / "run_demo.py"


def demonstrate(home: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(PROGRAM), "--home", str(home), "--orders", "300", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)


@pytest.mark.campaign
def test_a_demonstration_of_one_day_shows_the_waiting_sensor_the_commit_and_the_table(tmp_path):
    done = demonstrate(tmp_path / "home of the demo", "--days", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"orders_report +its sensor is deferred", done.stdout)) == 1
    assert re.findall(r"orders_ingest +committed version (\d)", done.stdout) == ["0"]
    table = DeltaTable(str(tmp_path / "home of the demo" / "lake" / "orders"))
    assert table.version == 0 and table.to_arrow().num_rows > 0
    for title in ("History of", "Partitions of version 0", "A few rows", "Results of orders_report"):
        assert title in done.stdout


@pytest.mark.campaign
def test_a_second_demonstration_writes_nothing_and_reports_skipped_runs(tmp_path):
    home = tmp_path / "home of the demo"
    first = demonstrate(home)
    assert first.returncode == 0, first.stdout + first.stderr
    assert len(re.findall(r"orders_report +its sensor is deferred", first.stdout)) == 3
    assert re.findall(r"orders_ingest +committed version (\d)", first.stdout) == ["0", "1", "2"]
    table = DeltaTable(str(home / "lake" / "orders"))
    before = table.to_arrow().num_rows
    files = sorted(path for path in (home / "lake").rglob("*") if path.is_file())

    second = demonstrate(home)
    assert second.returncode == 0, second.stdout + second.stderr
    assert re.findall(r"orders_ingest +skipped: this run committed version (\d)", second.stdout) == ["0", "1", "2"]
    assert "Nothing was written." in second.stdout
    assert sorted(path for path in (home / "lake").rglob("*") if path.is_file()) == files
    again = DeltaTable(str(home / "lake" / "orders"))
    assert (again.version, again.to_arrow().num_rows) == (2, before)
    for title in ("History of", "Partitions of version 2", "A few rows", "Results of orders_report"):
        assert title in first.stdout and title in second.stdout


def test_a_failure_is_one_sentence_with_a_nonzero_exit_code(tmp_path):
    home = tmp_path / "home"
    home.write_text("a file where a folder is wanted")
    done = demonstrate(home)
    assert done.returncode == 1
    assert "The demonstration failed." in done.stderr and str(home) in done.stderr
    assert "Traceback" not in done.stderr
