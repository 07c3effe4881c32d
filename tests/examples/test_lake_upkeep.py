"""The DAGs `lake_checkpoints` and `lake_vacuum` run a mapped task for each table."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, example, run

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.usefixtures("totals_runs"),
]


def test_one_mapped_task_writes_the_checkpoint_of_each_table(lake):
    from deltalite.log.last_checkpoint import read_last_checkpoint
    from deltalite.storage.local import LocalLogStore

    tables = [lake / name for name in ("orders", "order_totals")]
    newest_versions = [DeltaTable(str(table)).version for table in tables]
    assert run(example("lake_checkpoints"), FIRST_DAY).state == "success"
    assert [read_last_checkpoint(LocalLogStore(str(table))).version for table in tables] == newest_versions
    assert [DeltaTable(str(table)).version for table in tables] == newest_versions  # no task committed


def test_one_mapped_task_vacuums_each_table_and_a_dry_run_deletes_nothing(lake):
    tables = [lake / name for name in ("orders", "order_totals")]
    versions_before = [DeltaTable(str(table)).version for table in tables]
    for table in tables:
        (table / "orphan.parquet").write_bytes(b"x" * 7)
        os.utime(table / "orphan.parquet", (0, 0))
    dry_run = run(example("lake_vacuum"), FIRST_DAY, conf={"dry_run": True})
    assert dry_run.state == "success"
    assert [result["metrics"]["sizeOfDataToDelete"] for result in dry_run.return_values["vacuum"]] == [7, 7]
    assert [DeltaTable(str(table)).version for table in tables] == versions_before
    vacuum_run = run(example("lake_vacuum"), FIRST_DAY, after_midnight=timedelta(days=2))
    assert [result["metrics"]["numDeletedFiles"] for result in vacuum_run.return_values["vacuum"]] == [1, 1]
    assert [result["version"] for result in vacuum_run.return_values["vacuum"]] == [
        version + 2 for version in versions_before
    ]
    assert not any((table / "orphan.parquet").exists() for table in tables)
