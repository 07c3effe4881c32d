"""An optimize of two commits is killed at every file move: no row is lost, and no file is rewritten twice."""

from __future__ import annotations

import shutil

import pytest

from deltalite import DeltaTable
from tests.faults.crash_site import MOVES
from tests.faults.killing import check_whole, count_commits_of_run
from tests.support.tables import commit, delete_rows, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

RUN = "airflow/dag/task/-1/manual"
PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1"}


@pytest.mark.parametrize("options", [{}, {"z_order_by": ["id"]}], ids=["packed", "ordered"])
def test_an_optimize_survives_a_kill_at_every_file_move(spark_site, spark, tmp_path, options):
    template = tmp_path / "template"
    for first in (1, 5):
        query = values("id, day", *[f"{n}, '{day}'" for n in range(first, first + 3) for day in "ab"])
        write_rows(spark, template, query.replace("SELECT", "SELECT /*+ COALESCE(1) */"), partition_by=("day",),
            properties=PROPERTIES)  # fmt: skip
    delete_rows(spark, template, "id = 2 AND day = 'a'")
    before, head = rows(template), DeltaTable(str(template)).version
    files = DeltaTable(str(template)).files()
    old = set(files["path"].to_pylist())
    assert len(old) == 4
    one_partition = sum(files["size_bytes"].to_pylist()) * 3 // 4  # what a commit rewrites: each half, and not both
    task = {"run": RUN, "max_commit_bytes": one_partition, **options}
    steps = []
    while True:
        table = tmp_path / f"killed {len(steps)}"
        shutil.copytree(template, table)
        step = spark_site.run("optimize", table, kill_at=len(steps), kinds=MOVES, **task)
        check_whole(table, before)
        if step is None:
            break
        assert spark_site.run("optimize", table, kinds=MOVES, **task) is None
        check_whole(table, before)
        assert count_commits_of_run(table, RUN) == 1, f"killed at {step}"
        newest = DeltaTable(str(table))
        gone = [remove["path"] for version in range(head + 1, newest.version + 1)
                for remove in commit(table, version)["remove"]]  # fmt: skip
        assert sorted(gone) == sorted(old), f"killed at {step}: something was written again twice, or not at all"
        assert newest.files().num_rows == 2 and "txn" in commit(table, newest.version)
        shutil.rmtree(table)
        steps.append(step)
    assert sum(step.startswith("os.link") and step.endswith(".json") for step in steps) == 2
    assert sum(step.startswith("os.rename") and "day=" in step for step in steps) == 2
