"""Other engines read and write a table with source offsets of flows, and keep the offsets in their checkpoints."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

from deltalite.commands.restore import restore
from deltalite.requests import RestoreRequest
from deltalite.storage.local import LocalLogStore
from deltalite.txn.flows import FlowId, flow_offsets
from tests.unit.builders import commit_actions, load, txn

pytestmark = pytest.mark.interop

FLOW, RESET_FLOW = FlowId(name="s3://lake/orders", source_table_id="t"), FlowId(name="b", source_table_id="t")


@pytest.fixture
def target(tmp_path):
    """A table with one row. A restore has set the offset of one flow to -1."""
    table = tmp_path / "t"
    deltalake.write_deltalake(str(table), pa.table({"id": [1]}))
    store = LocalLogStore(str(table))
    commit_actions(store, txn(FLOW.app_id, 7))
    commit_actions(store, txn(RESET_FLOW.app_id, 3))
    restore(None, RestoreRequest(table=str(table), version=1))
    return table


def offsets(table):
    transactions = load(LocalLogStore(str(table))).transactions
    return {flow: each.version for flow, each in flow_offsets(transactions).items()}


def delete_commits_before_the_checkpoint(table):
    log = table / "_delta_log"
    version = max(int(file.name[:20]) for file in log.glob("*.checkpoint.parquet"))
    for file in log.glob("*.json"):
        if file.stem.isdigit() and int(file.stem) < version:
            file.unlink()


def test_delta_rs_keeps_offsets(target):
    table = deltalake.DeltaTable(str(target))
    assert (table.transaction_version(FLOW.app_id), table.transaction_version(RESET_FLOW.app_id)) == (7, -1)
    deltalake.write_deltalake(str(target), pa.table({"id": [2]}), mode="append")
    deltalake.DeltaTable(str(target)).create_checkpoint()
    delete_commits_before_the_checkpoint(target)
    assert offsets(target) == {FLOW: 7, RESET_FLOW: -1}


@pytest.mark.campaign
def test_delta_spark_keeps_offsets(target, delta_spark):
    delta_spark.sql(f"ALTER TABLE delta.`{target}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    delta_spark.sql(f"INSERT INTO delta.`{target}` VALUES (2)")
    assert delta_spark.sql(f"SELECT id FROM delta.`{target}` ORDER BY id") == [[1], [2]]
    delete_commits_before_the_checkpoint(target)
    assert offsets(target) == {FLOW: 7, RESET_FLOW: -1}
