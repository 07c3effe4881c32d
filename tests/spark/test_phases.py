"""The phases of real jobs, in the results that they report."""

from __future__ import annotations

import shutil
import time
from itertools import pairwise

import pytest

from deltalite.commands.check import check
from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.delete import delete
from deltalite.commands.generate_manifest import generate_manifest
from deltalite.commands.maintain import maintain
from deltalite.commands.optimize import optimize
from deltalite.commands.restore import restore
from deltalite.commands.vacuum import vacuum
from deltalite.commands.write import write
from deltalite.jobs import runner
from deltalite.phases import PHASES
from deltalite.requests import (
    Audit,
    CheckpointRequest,
    CheckRequest,
    DeleteRequest,
    GenerateManifestRequest,
    MaintainRequest,
    OptimizeRequest,
    RestoreRequest,
    RunIdentity,
    VacuumRequest,
)
from deltalite.spark.runtime.driver_age import driver_age_s
from tests.support.submitting import WRITE_JOB, end_markers, run_job
from tests.support.tables import request, values, write_rows

ROWS = values("id, day", "1, 'a'", "2, 'b'")
RUN = RunIdentity(app_id="a run")
AUDITS = (Audit(name="positive", rows="id < 0"),)
COMMIT = {"start", "plan", "commit", "after_commit"}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table with two versions, each with a file."""
    table = tmp_path_factory.mktemp("template") / "orders"
    for number in range(2):
        write_rows(spark, table, ROWS, run=f"run {number}")
    return table


@pytest.fixture
def table(template, tmp_path):
    """The address of a copy of the template."""
    return str(shutil.copytree(template, tmp_path / "lake" / "orders"))


def run_in_process(folder, command, job_request, capfd, monkeypatch):
    """Run a job in this process. Return the result that it reports, and the seconds that it took."""
    monkeypatch.setattr(runner, "_stop_spark", lambda _spark: None)
    file = folder / "request.json"
    file.write_text(job_request.to_json())
    start_s = time.monotonic()
    runner.run("job", type(job_request).from_json, command, [str(file)])
    seconds = time.monotonic() - start_s
    output, errors = capfd.readouterr()
    (result,) = end_markers(output)
    assert result.table, errors
    return result, seconds


CASES = [
    (write, lambda table: request(table, ROWS, audits=AUDITS), {*COMMIT, "write", "audit"}),
    (delete, lambda table: DeleteRequest(table=table, condition="id = 1"), {*COMMIT, "write"}),
    (optimize, lambda table: OptimizeRequest(table=table), {*COMMIT, "write"}),
    (vacuum, lambda table: VacuumRequest(table=table), {*COMMIT, "delete"}),
    (check, lambda table: CheckRequest(table=table, audits=AUDITS), {"start", "plan", "audit"}),
    (maintain, lambda table: MaintainRequest(tables=(table,)), {"start", "plan", "maintain"}),
]
CASES_OF_THE_CAMPAIGN = [
    (write, lambda table: request(table, ROWS, run="new"), {*COMMIT, "write"}),
    (write, lambda table: request(table, ROWS, run="run 0"), {"start", "plan"}),
    (write, lambda table: request(table, ROWS, mode="overwrite", replace_where="id <= 2"), {*COMMIT, "write"}),
    (delete, lambda table: DeleteRequest(table=table, condition="id = 9", identity=RUN), COMMIT),
    (vacuum, lambda table: VacuumRequest(table=table, dry_run=True), {"start", "plan"}),
    (restore, lambda table: RestoreRequest(table=table, version=0), COMMIT),
    (checkpoint, lambda table: CheckpointRequest(table=table), {"start", "plan", "write"}),
    (generate_manifest, lambda table: GenerateManifestRequest(table=table), {"start", "plan", "write"}),
]


@pytest.mark.parametrize(
    ("command", "make_request", "phases"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.campaign) for case in CASES_OF_THE_CAMPAIGN)],
)
def test_a_job_reports_its_phases(spark, tmp_path, table, capfd, monkeypatch, command, make_request, phases):
    result, seconds = run_in_process(tmp_path, command, make_request(table), capfd, monkeypatch)
    assert set(result.phases) == phases
    assert sum(result.phases.values()) <= seconds + 0.001 * len(phases), "no second counts twice"


def test_each_commit_of_a_job_adds_to_its_phases(spark, tmp_path, capfd, monkeypatch):
    table, phases, begin = tmp_path / "t", [], PHASES.begin
    for _ in range(2):
        write_rows(spark, table, ROWS, partition_by=("day",))

    def record_and_begin(phase):
        phases.append(str(phase))
        begin(phase)

    monkeypatch.setattr(PHASES, "begin", record_and_begin)
    optimize_request = OptimizeRequest(table=str(table), max_commit_bytes=1)
    result, _ = run_in_process(tmp_path, optimize, optimize_request, capfd, monkeypatch)
    assert result.metrics["totalNumCommits"] == 2 and set(result.phases) == {*COMMIT, "write"}
    changes = [phase for before, phase in pairwise(["start", *phases]) if phase != before]
    assert changes == ["plan", "write", "commit", "after_commit", "plan", "write", "commit", "after_commit"]


def test_the_age_of_the_driver_is_unknown_if_its_context_is_older_than_the_job(spark):
    now_ms = time.time_ns() // 1_000_000
    assert driver_age_s(spark, job_start_ms=now_ms) is None
    age_s = driver_age_s(spark, job_start_ms=spark.sparkContext.startTime)
    assert age_s * 1000 >= now_ms - spark.sparkContext.startTime - 1000, "the JVM is older than its context"


def test_the_start_of_a_job_begins_with_its_driver(spark, tmp_path, table, capfd, monkeypatch):
    monkeypatch.setattr(runner, "driver_age_s", lambda _spark, **_options: 86_400.0)
    result, _ = run_in_process(tmp_path, vacuum, VacuumRequest(table=table, dry_run=True), capfd, monkeypatch)
    assert result.phases["start"] == 86_400


# A script that runs the unchanged job, and prints the age of the driver that the job sees.
PRINTING_JOB = f"""
import runpy, sys
from deltalite.jobs import runner

driver_age_s = runner.driver_age_s

def print_age(*arguments, **options):
    age_s = driver_age_s(*arguments, **options)
    print("\\nage of the driver:", age_s, flush=True)
    return age_s

runner.driver_age_s = print_age
sys.argv = [{str(WRITE_JOB)!r}, *sys.argv[1:]]
runpy.run_path({str(WRITE_JOB)!r}, run_name="__main__")
"""


@pytest.mark.campaign
@pytest.mark.slow
def test_the_start_of_a_submitted_job_begins_with_its_jvm(tmp_path):
    script = tmp_path / "printing.py"
    script.write_text(PRINTING_JOB)
    start_s = time.monotonic()
    job = run_job(tmp_path, request(tmp_path / "t", ROWS), script=script)
    seconds = time.monotonic() - start_s
    assert job.code == 0, job.errors
    (age_line,) = [line for line in job.output.splitlines() if line.startswith("age of the driver: ")]
    assert job.marker.phases["start"] == float(age_line.rpartition(" ")[2]), "the JVM is older than the Python process"
    assert set(job.marker.phases) == {*COMMIT, "write"}
    assert sum(job.marker.phases.values()) <= seconds + 0.001 * len(job.marker.phases)
