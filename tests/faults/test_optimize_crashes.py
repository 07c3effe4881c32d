"""An optimize with two commits is killed at every file move: no row is lost, and each file is rewritten once."""

from __future__ import annotations

import shutil

import pytest

from deltalite import DeltaTable
from tests.faults.crash_site import MOVES
from tests.faults.killing import check_whole, count_commits_of_run, json_links
from tests.support.tables import actions_of, delete_rows, rows, values, write_rows

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
    rows_before, version_before = rows(template), DeltaTable(str(template)).version
    files = DeltaTable(str(template)).files()
    old_paths = set(files["path"].to_pylist())
    assert len(old_paths) == 4
    # Each of the two partitions has half of the bytes, so one commit can rewrite only one of them.
    max_commit_bytes = sum(files["size_bytes"].to_pylist()) * 3 // 4
    arguments = {"run": RUN, "max_commit_bytes": max_commit_bytes, **options}
    steps = []
    while True:
        table = tmp_path / f"killed {len(steps)}"
        shutil.copytree(template, table)
        step = spark_site.run("optimize", table, kill_at=len(steps), kinds=MOVES, **arguments)
        check_whole(table, rows_before)
        if step is None:
            break
        assert spark_site.run("optimize", table, kinds=MOVES, **arguments) is None
        check_whole(table, rows_before)
        assert count_commits_of_run(table, RUN) == 1, f"killed at {step}"
        newest = DeltaTable(str(table))
        removed_paths = [remove["path"] for version in range(version_before + 1, newest.version + 1)
                for remove in actions_of(table, version)["remove"]]  # fmt: skip
        assert sorted(removed_paths) == sorted(old_paths), f"killed at {step}: a file was rewritten twice or never"
        assert newest.files().num_rows == 2 and "txn" in actions_of(table, newest.version)
        shutil.rmtree(table)
        steps.append(step)
    assert len(json_links(steps)) == 2
    assert sum(step.startswith("os.rename") and "day=" in step for step in steps) == 2
