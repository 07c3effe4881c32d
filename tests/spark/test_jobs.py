"""Whole jobs: their output, their exit codes, and the files that remain after a kill. Most run under `spark-submit`."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_deltalite.clusters.processes import kill, process_tree, terminate_driver
from deltalite.commands.write import write
from deltalite.errors import SchemaMismatchError, error_class_for
from deltalite.jobs.runner import run
from deltalite.redaction import SECRET_NAMES
from deltalite.requests import WriteRequest
from deltalite.results import JobError, OperationResult
from tests.support.submitting import WRITE_JOB, end_markers, run_job, submit_command
from tests.support.tables import (
    actions_of,
    data_files,
    folder_content,
    request,
    rows,
    schema_json,
    values,
    write_foreign_table,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.generated_code]

RUN = "airflow/dag/task/-1/manual__2026-01-01"
TWO_ROWS = values("id, day", "1, 'a'", "2, 'b'")

# A script that runs the unchanged job, and kills its own process at the call of one function.
SELF_KILLING_JOB = """
import os, runpy, signal, sys
import deltalite.commands.common.committing as committing

def die(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

assert committing.{function}
committing.{function} = die
sys.argv = [{job!r}, *sys.argv[1:]]
runpy.run_path({job!r}, run_name="__main__")
"""


def write_self_killing_job(folder, function):
    """Write the script of a job that dies when the module `committing` calls `function`; returns its path."""
    script = folder / "self_killing.py"
    script.write_text(SELF_KILLING_JOB.format(function=function, job=str(WRITE_JOB)))
    return script


def test_a_rejected_write_exits_with_its_code_and_prints_its_marker(tmp_path):
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "integer")), [])
    job = run_job(tmp_path, request(table, "SELECT 'x' AS id", run=RUN))
    assert isinstance(job.marker, JobError), job.errors
    assert (job.code, job.marker.kind) == (SchemaMismatchError.exit_code, "SchemaMismatchError")
    assert "CAST(id AS int)" in job.marker.message
    # spark-submit copies both streams of a Python driver to its standard output.
    assert "Traceback" in job.output and "DELTALITE-RESULT" not in job.output
    assert not data_files(table)


@pytest.mark.parametrize(
    ("request_json", "kind"),
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
def test_an_error_of_the_library_has_its_exit_code_and_a_marker(spark, tmp_path, capfd, request_json, kind):
    """The test calls the runner in this process, as the main program of a job does."""
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "integer")), [])
    request_file = tmp_path / "request.json"
    request_file.write_text(request_json(table))
    content_before = folder_content(table)
    exit_code = run("write", WriteRequest.from_json, write, [str(request_file)])
    output, errors = capfd.readouterr()
    (marker,) = end_markers(output)
    assert "Traceback" in errors and folder_content(table) == content_before
    assert (marker.kind, error_class_for(exit_code).__name__) == (kind, kind)


PROGRAM_THAT_PRINTS_SETTINGS = """
from deltalite.spark.runtime.session import open_session

conf = open_session("deltalite write").sparkContext.getConf()
names = ("spark.app.name", "spark.redaction.regex", "spark.python.sql.dataFrameDebugging.enabled")
print([conf.get(name) for name in names])
"""


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("conf", "settings"),
    [
        (
            {
                "spark.app.name": "sales.load",
                "spark.redaction.regex": "(?i)token",
                "spark.python.sql.dataFrameDebugging.enabled": "true",
            },
            ["sales.load", "(?i)token", "true"],
        ),
        ({}, ["printing.py", SECRET_NAMES, "false"]),
    ],
)
def test_a_job_keeps_the_settings_that_spark_submit_got(tmp_path, conf, settings):
    script = tmp_path / "printing.py"
    script.write_text(PROGRAM_THAT_PRINTS_SETTINGS)
    job = run_job(tmp_path, "", script=script, conf=conf)
    assert str(settings) in job.output.splitlines(), job.errors


def test_an_unexpected_error_has_the_exit_code_1_which_is_retried(spark, tmp_path, capfd):
    request_file = tmp_path / "request.json"
    request_file.write_text(request(tmp_path / "t", "SELECT 1 AS id").to_json())
    assert run("write", WriteRequest.from_json, lambda _spark, _request: 1 // 0, [str(request_file)]) == 1
    output, errors = capfd.readouterr()
    (marker,) = end_markers(output)
    assert marker.kind == "ZeroDivisionError" and "Traceback" in errors


@pytest.mark.campaign
def test_a_retry_writes_nothing_if_the_job_was_killed_after_its_commit(tmp_path):
    table = tmp_path / "t"
    write_request = request(table, TWO_ROWS, run=RUN, partition_by=("day",))
    killed = run_job(tmp_path, write_request, script=write_self_killing_job(tmp_path, "after_commit"))
    assert killed.code != 0 and killed.marker is None
    assert len(rows(table)) == 2
    retry = run_job(tmp_path, write_request)
    assert retry.code == 0, retry.errors
    assert (retry.marker.skipped, retry.marker.version) == (True, 0)
    assert rows(table) == [(1, "a"), (2, "b")]
    assert data_files(table) == {add["path"] for add in actions_of(table, 0)["add"]}


@pytest.mark.campaign
def test_a_retry_writes_once_if_the_job_was_killed_before_its_commit(tmp_path):
    """The first attempt has moved its files into the folder of a table that does not exist yet."""
    table = tmp_path / "t"
    write_request = request(table, TWO_ROWS, run=RUN, partition_by=("day",))
    killed = run_job(tmp_path, write_request, script=write_self_killing_job(tmp_path, "commit"))
    assert killed.code != 0 and killed.marker is None
    assert {name.split("/")[0] for name in data_files(table)} == {"day=a", "day=b"}
    assert not (table / "_delta_log").exists()
    retry = run_job(tmp_path, write_request)
    assert retry.code == 0, retry.errors
    assert isinstance(retry.marker, OperationResult)
    assert (retry.marker.skipped, retry.marker.committed, retry.marker.version) == (False, True, 0)
    assert retry.marker.app_id == RUN
    logged_metrics = actions_of(table, 0)["commitInfo"]["operationMetrics"]
    assert retry.marker.metrics == {name: int(text) for name, text in logged_metrics.items()}
    assert rows(table) == [(1, "a"), (2, "b")]


SLOW_ROWS = (
    "SELECT id, left(java_method('java.lang.Thread', 'sleep', IF(spark_partition_id() = 0, 0L, 200L)), 0) AS day "
    "FROM (SELECT /*+ REPARTITION(4) */ id FROM range(4000))"
)


def test_a_job_that_gets_sigterm_in_the_middle_of_its_tasks_removes_its_files(tmp_path):
    """The first of four tasks has written its file. The others would take more than three minutes each."""
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "long"), ("day", "string")), [])
    content_before = folder_content(table)
    with subprocess.Popen(submit_command(tmp_path, request(table, SLOW_ROWS)), stdout=subprocess.DEVNULL) as job:
        try:
            while not any(table.rglob("_temporary/0/task_*/*.parquet")):
                assert job.poll() is None
                time.sleep(0.05)
            terminate_driver(process_tree(job.pid))
            assert job.wait(60) == 143
        finally:
            kill(process_tree(job.pid))
    assert folder_content(table) == content_before


APPENDING_PROGRAM = """
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
    write_foreign_table(table, schema_json(("id", "long")), [])
    script = tmp_path / "appending.py"
    script.write_text(APPENDING_PROGRAM)
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
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    versions_by_process = []
    for process in processes:
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
        versions_by_process.append([int(line) for line in output.split()])
    first, second = versions_by_process
    assert sorted(first + second) == list(range(1, 41))
    assert [row[0] for row in rows(table)] == [1000 + n for n in range(20)] + [2000 + n for n in range(20)]
    # The processes appended at the same time, not one after the other.
    assert min(second) < max(first) and min(first) < max(second)
    assert {f.name for f in (table / "_delta_log").glob("*.checkpoint.parquet")} >= {
        f"{n:020}.checkpoint.parquet" for n in (10, 20, 30, 40)
    }
    assert not list(Path(table / "_delta_log").glob(".*"))
