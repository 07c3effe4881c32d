"""This library and delta-spark write to a table from which delta-spark has dropped a feature."""

from __future__ import annotations

import os
import time

import pytest

from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.protocol.file_names import commit_name
from deltalite.requests import CheckpointRequest
from tests.support.tables import delete_rows, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]
DAY_S = 24 * 3600


@pytest.mark.campaign
def test_delta_spark_reads_a_table_with_a_dropped_feature_before_and_after_log_cleanup(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.logRetentionDuration' = 'interval 7 days'"
    delta_spark.sql(f"CREATE TABLE {sql_name} (id BIGINT) USING delta TBLPROPERTIES ({properties})")
    delta_spark.sql(f"INSERT INTO {sql_name} SELECT id FROM range(0, 10, 1, 1)")
    delta_spark.sql(f"DELETE FROM {sql_name} WHERE id = 3")
    delta_spark.sql(f"ALTER TABLE {sql_name} DROP FEATURE deletionVectors")
    table_after_drop = DeltaTable(str(table))
    assert "checkpointProtection" in table_after_drop.protocol.writer_features
    boundary = int(table_after_drop.metadata.configuration["delta.requireCheckpointProtectionBeforeVersion"])
    assert boundary > 0

    write_rows(spark, table, "SELECT 20L AS id")
    delete_rows(spark, table, "id = 4")
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (30)")
    expected = [[id_] for id_ in (0, 1, 2, 5, 6, 7, 8, 9, 20, 30)]
    assert delta_spark.rows(table) == sorted(expected, key=repr)
    assert rows(table) == sorted(map(tuple, expected), key=repr)

    newest = DeltaTable(str(table)).version
    for version in range(newest + 1):
        commit_time = time.time() - (20 * (newest - version) + 10) * DAY_S
        os.utime(table / commit_name(version), (commit_time, commit_time))
    assert checkpoint(spark, CheckpointRequest(table=str(table))).metrics["numDeletedLogFiles"] > 0
    write_rows(spark, table, "SELECT 40L AS id")
    assert delta_spark.rows(table) == sorted([*expected, [40]], key=repr)
