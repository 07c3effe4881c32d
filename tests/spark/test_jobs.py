"""Whole jobs under a real `spark-submit`: their output, their exit codes, and the files that remain after a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deltalite.commands.write import write
from deltalite.errors import SchemaMismatchError, error_class_for
from deltalite.jobs.runner import run
from deltalite.requests import WriteRequest
from deltalite.results import JobError, OperationResult
from tests.support.submitting import WRITE_JOB, ends, submit
from tests.support.tables import commit, data_files, everything, hand_made, request, rows, schema_json, values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.generated_code]

RUN = "airflow/dag/task/-1/manual__2026-01-01"
TWO = values("id, day", "1, 'a'", "2, 'b'")

# The job with its process killed at one place, by its own hand; what is killed is exactly what is shipped.
KILLED = """
import os, runpy, signal, sys
import deltalite.commands.common.committing as command

def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

assert command.{place}
command.{place} = die
sys.argv = [{job!r}, *sys.argv[1:]]
runpy.run_path({job!r}, run_name="__main__")
"""


def killed_job(folder, place):
    script = folder / "killed.py"
    script.write_text(KILLED.format(place=place, job=str(WRITE_JOB)))
    return script


def test_a_rejected_write_exits_with_its_code_and_prints_its_marker(tmp_path):
    table = tmp_path / "t"
    hand_made(table, schema_json(("id", "integer")), [])
    ended = submit(tmp_path, request(table, "SELECT 'x' AS id", run=RUN))
    assert isinstance(ended.marker, JobError), ended.errors
    assert (ended.code, ended.marker.kind) == (SchemaMismatchError.exit_code, "SchemaMismatchError")
    assert "CAST(id AS int)" in ended.marker.message
    # Spark hands on what a Python driver writes to either stream as its own output.
    assert "Traceback" in ended.output and "DELTALITE-RESULT" not in ended.output
    assert not data_files(table)


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (lambda table: request(table, "SELECT 'x' AS id").to_json(), "SchemaMismatchError"),
        (lambda table: request(table, "SELECT CAST(raise_error('boom') AS INT) AS id").to_json(), "SourceError"),
        (
            lambda table: request(table, "SELECT 1 AS id").to_json().replace('"append"', '"sideways"'),
            "InvalidRequestError",
        ),
        (
            lambda table: request(table, "SELECT 1 AS id").to_json().replace('"table"', '"tables"'),
            "InvalidRequestError",
        ),
        (lambda table: request(table).to_json().replace('"text"', '"delta"'), "TableNotFoundError"),
        (lambda table: request(table, "SELECT 1 AS id", mode="error").to_json(), "TableExistsError"),
        (lambda table: request("nowhere://bucket/t", "SELECT 1 AS id").to_json(), "UnsupportedStorageError"),
        (lambda table: "no JSON", "InvalidRequestError"),
    ],
)
def test_every_error_has_a_code_and_a_marker(spark, tmp_path, capfd, made, kind):
    """The test calls the runner in this process, as the main program of a job does."""
    table = tmp_path / "t"
    hand_made(table, schema_json(("id", "integer")), [])
    file = tmp_path / "request.json"
    file.write_text(made(table))
    before = everything(table)
    code = run("write", WriteRequest.from_json, write, [str(file)])
    output, errors = capfd.readouterr()
    (marker,) = ends(output)
    assert "Traceback" in errors and everything(table) == before
    assert (marker.kind, error_class_for(code).__name__) == (kind, kind)


def test_an_unexpected_error_is_retryable(spark, tmp_path, capfd):
    file = tmp_path / "request.json"
    file.write_text(request(tmp_path / "t", "SELECT 1 AS id").to_json())
    assert run("write", WriteRequest.from_json, lambda _spark, _request: 1 // 0, [str(file)]) == 1
    output, errors = capfd.readouterr()
    (marker,) = ends(output)
    assert marker.kind == "ZeroDivisionError" and "Traceback" in errors


@pytest.mark.campaign
def test_a_retry_after_a_kill_behind_the_commit_writes_nothing(tmp_path):
    table = tmp_path / "t"
    wanted = request(table, TWO, run=RUN, partition_by=("day",))
    ended = submit(tmp_path, wanted, script=killed_job(tmp_path, "after_commit"))
    assert ended.code != 0 and ended.marker is None
    assert len(rows(table)) == 2
    again = submit(tmp_path, wanted)
    assert again.code == 0, again.errors
    assert (again.marker.skipped, again.marker.version) == (True, 0)
    assert rows(table) == [(1, "a"), (2, "b")]
    assert data_files(table) == {add["path"] for add in commit(table, 0)["add"]}


def test_a_retry_after_a_kill_before_the_commit_writes_once(tmp_path):
    """The first attempt may have moved its files into the folder of a table that does not exist yet."""
    table = tmp_path / "t"
    wanted = request(table, TWO, run=RUN, partition_by=("day",))
    ended = submit(tmp_path, wanted, script=killed_job(tmp_path, "commit"))
    assert ended.code != 0 and ended.marker is None
    assert {name.split("/")[0] for name in data_files(table)} == {"day=a", "day=b"}
    assert not (table / "_delta_log").exists()
    again = submit(tmp_path, wanted)
    assert again.code == 0, again.errors
    assert isinstance(again.marker, OperationResult)
    assert (again.marker.skipped, again.marker.committed, again.marker.version) == (False, True, 0)
    assert again.marker.app_id == RUN
    assert again.marker.metrics == {k: int(v) for k, v in commit(table, 0)["commitInfo"]["operationMetrics"].items()}
    assert rows(table) == [(1, "a"), (2, "b")]


APPENDING = """
import sys
from pyspark.sql import SparkSession
from deltalite.commands.write import write
from deltalite.requests import RunIdentity, Source, WriteRequest

table, source, writer = sys.argv[1], sys.argv[2], int(sys.argv[3])
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "1g").getOrCreate()
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    request = WriteRequest(
        table=table,
        sources={"source": Source(format="text", path=source)},
        query=f"SELECT CAST({writer * 1000 + number} AS BIGINT) AS id FROM source LIMIT 1",
        identity=RunIdentity(app_id=f"writer/{writer}/{number}"),
    )
    result = write(spark, request)
    assert result.committed
    print(result.version, flush=True)
spark.stop()
"""


@pytest.mark.campaign
def test_two_appending_processes_lose_no_row(tmp_path):
    table = tmp_path / "t"
    hand_made(table, schema_json(("id", "long")), [])
    script = tmp_path / "appending.py"
    script.write_text(APPENDING)
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(table), str(script), str(writer)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for writer in (1, 2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    ended = []
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        ended.append(process.communicate(timeout=240))
        assert process.returncode == 0, ended[-1][1]
    versions = [int(line) for output, _ in ended for line in output.split()]
    assert sorted(versions) == list(range(1, 41))
    assert [row[0] for row in rows(table)] == [1000 + n for n in range(20)] + [2000 + n for n in range(20)]
    # They were at it together, not one after the other.
    first, second = ([int(line) for line in output.split()] for output, _ in ended)
    assert min(second) < max(first) and min(first) < max(second)
    assert {f.name for f in (table / "_delta_log").glob("*.checkpoint.parquet")} >= {
        f"{n:020}.checkpoint.parquet" for n in (10, 20, 30, 40)
    }
    assert not list(Path(table / "_delta_log").glob(".*"))
