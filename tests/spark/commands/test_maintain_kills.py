"""After a kill of a maintenance job, the retry runs each remaining step once."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable, jobs
from deltalite.markers import ResultPart, parse_marker, result_parts
from deltalite.requests import MaintainRequest, RunIdentity
from tests.support.submitting import run_job
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

JOB = Path(next(iter(jobs.__path__))) / "maintain.py"
NAMES = [f"t{number}" for number in range(5)]
FILE_COUNT = 12
# The script replaces one function, then runs the unchanged job.
KILLED_BEFORE_THE_THIRD_COMMIT = """
import itertools, os, runpy, signal, sys
import deltalite.commands.common.committing as committing

calls, commit = itertools.count(1), committing.commit

def commit_or_die(*arguments):
    if next(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return commit(*arguments)

committing.commit = commit_or_die
runpy.run_path({job!r}, run_name="__main__")
"""


@pytest.fixture
def lake(tmp_path):
    lake = tmp_path / "lake"
    for name in NAMES:
        for number in range(FILE_COUNT):
            deltalake.write_deltalake(str(lake / name), pa.table({"id": [number]}), mode="append")
    return lake


@pytest.fixture
def request_of_run(lake):
    identity = RunIdentity(app_id="ns/dag/maintain/-1/run", details={"dag_id": "dag"})
    return MaintainRequest(pattern=f"{lake}/*", parallelism=2, identity=identity)


def result_of(job):
    """The result in the output of a job, which may consist of several parts."""
    parts, result = result_parts(), None
    for marker in map(parse_marker, job.output.splitlines()):
        result = parts.add(marker) or result if isinstance(marker, ResultPart) else result
    return result


def write_script(folder, text):
    script = folder / "script.py"
    script.write_text(text.format(job=str(JOB)))
    return script


def test_a_retry_after_a_kill_optimizes_only_the_remaining_tables(tmp_path, lake, request_of_run):
    killed = run_job(tmp_path, request_of_run, script=write_script(tmp_path, KILLED_BEFORE_THE_THIRD_COMMIT))
    assert killed.code != 0 and killed.marker is None
    optimized_names = [name for name in NAMES if DeltaTable(str(lake / name)).version == FILE_COUNT]
    assert len(optimized_names) == 2

    retry = run_job(tmp_path, request_of_run, script=JOB)
    assert retry.code == 0, retry.errors
    outcomes = {row["table"].rpartition("/")[2]: row["steps"]["optimize"]["outcome"] for row in result_of(retry).tables}
    assert outcomes == {name: "done earlier" if name in optimized_names else "done" for name in NAMES}
    for name in NAMES:
        table = DeltaTable(str(lake / name))
        assert [commit["operation"] for commit in table.history()].count("OPTIMIZE") == 1
        assert table.files().num_rows == 1
        assert rows(lake / name) == [(number,) for number in sorted(range(FILE_COUNT), key=str)]
        assert (lake / name / "_delta_log" / f"{FILE_COUNT:020}.checkpoint.parquet").exists()
