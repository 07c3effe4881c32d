"""The source offsets of flows: app ids, conflicts, restores and resets."""

from __future__ import annotations

import dataclasses

import pytest

from deltalite.errors import ConcurrentFlowException, InvalidRequestError
from deltalite.protocol.file_names import commit_name
from deltalite.results import FlowRange
from deltalite.txn.commit import Committed
from deltalite.txn.flows import (
    FlowId,
    flow_offsets,
    flow_ranges_of,
    flows_parameter,
    prefix_of_flow,
    reset_offsets,
    restored_offsets,
)
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.compaction import write_compaction
from tests.unit.builders import (
    NOON_MS,
    add,
    add_rival,
    append_files,
    create,
    load,
    new_store,
    proposal,
    try_commit,
    txn,
)

ORDERS = FlowId(name="s3://lake/orders", source_table_id="id-1")


def transactions(*txns):
    return {transaction.app_id: transaction for transaction in txns}


def offset(flow, version, last_updated_ms=NOON_MS):
    return txn(flow.app_id, version, last_updated_ms)


@pytest.mark.parametrize("name", ["orders", "s3://lake/orders", "a%2Fb", "50 %", "%25/%2F"])
def test_an_app_id_names_one_flow_and_one_source_table(name):
    flow = FlowId(name=name, source_table_id="id/1")
    assert FlowId.parse(flow.app_id) == flow
    assert flow.app_id.startswith(prefix_of_flow(name)) and flow.app_id.count("/") == 2


@pytest.mark.parametrize(
    "app_id",
    [
        "ns/dag/key",
        "run",
        "deltalite-flow/f",
        "deltalite-flow/a/b/c",
        "deltalite-flow/f/%2f%zz",
        "deltalite-flows/a/b",
    ],
)
def test_an_app_id_of_another_form_names_no_flow(app_id):
    assert FlowId.parse(app_id) is None


def test_the_prefix_of_a_flow_excludes_flows_with_longer_names():
    assert not FlowId(name="orders_2", source_table_id="i").app_id.startswith(prefix_of_flow("orders"))


def test_the_transaction_of_the_run_and_the_offset_are_in_one_commit():
    store = create(new_store(), add("f0"))
    current = dataclasses.replace(proposal(0, add("f1"), txn("run")), offsets=(offset(ORDERS, 7),))
    outcome, _ = try_commit(store, current)
    assert outcome == Committed(version=1, timestamp_ms=outcome.timestamp_ms)
    versions = {app_id: transaction.version for app_id, transaction in load(store).transactions.items()}
    assert versions == {"run": 0, ORDERS.app_id: 7}
    assert b'"isBlindAppend":true' in store.read(commit_name(1))


@pytest.mark.parametrize(
    ("winner", "conflicts"),
    [
        (offset(ORDERS, 3), True),
        (offset(dataclasses.replace(ORDERS, source_table_id="id-2"), 0), True),
        (offset(dataclasses.replace(ORDERS, name="s3://lake/orders2"), 3), False),
        (txn("another run"), False),
    ],
    ids=["the offset", "the offset of a recreated source", "another flow", "another run"],
)
def test_a_load_conflicts_with_a_winner_that_sets_an_offset_of_its_flow(winner, conflicts):
    store = create(new_store(), add("f0"))
    add_rival(store, [winner, add("w")])
    reads = ReadSet(app_id_prefixes=(prefix_of_flow(ORDERS.name),))
    current = dataclasses.replace(proposal(0, add("f1"), reads=reads), offsets=(offset(ORDERS, 7),))
    if conflicts:
        with pytest.raises(ConcurrentFlowException, match="set the source offset"):
            try_commit(store, current)
        assert load(store).version == 1
    else:
        outcome, _ = try_commit(store, current)
        assert outcome.version == 2


def test_checkpoints_and_compactions_keep_offsets():
    for shorten_log in (
        lambda store: write_compaction(store, 1, 3),
        lambda store: write_checkpoint(load(store), now_ms=NOON_MS),
    ):
        store = create(new_store())
        old_offset = offset(ORDERS, 7, last_updated_ms=1)
        try_commit(store, dataclasses.replace(proposal(0, add("f")), offsets=(old_offset,)))
        append_files(store, 2)
        shorten_log(store)
        store.files.pop(commit_name(2))  # only the compaction or the checkpoint holds the offset now
        store.files.pop(commit_name(1))
        assert flow_offsets(load(store).transactions)[ORDERS].version == 7


def test_a_restore_puts_each_offset_back():
    other, unchanged = FlowId(name="b", source_table_id="i"), FlowId(name="c", source_table_id="i")
    current = transactions(offset(ORDERS, 9), offset(other, 4), offset(unchanged, 2), txn("run", 5))
    restored = transactions(offset(ORDERS, 3), offset(unchanged, 2), txn("run", 1))
    assert restored_offsets(current, restored, now_ms=5) == (offset(ORDERS, 3, 5), offset(other, -1, 5))


def test_a_reset_sets_the_offset_of_the_table_that_the_flow_loaded_last():
    old = dataclasses.replace(ORDERS, source_table_id="old")
    current = transactions(
        offset(old, 40, NOON_MS - 1), offset(ORDERS, 9), offset(FlowId(name="b", source_table_id="i"), 1)
    )
    assert reset_offsets(current, {ORDERS.name: 5}, table="t", now_ms=7) == (offset(old, -1, 7), offset(ORDERS, 5, 7))
    assert reset_offsets(current, {ORDERS.name: None, "b": 1}, table="t", now_ms=7) == (
        offset(old, -1, 7),
        offset(ORDERS, -1, 7),
    )
    tied = transactions(offset(old, 40), offset(ORDERS, 9))
    with pytest.raises(InvalidRequestError, match="several source tables with the same time"):
        reset_offsets(tied, {ORDERS.name: 5}, table="t", now_ms=7)
    with pytest.raises(InvalidRequestError, match=r"the flow 'c', but t has no offset of it\. Its flows: 'b', 's3:"):
        reset_offsets(current, {"c": None}, table="t", now_ms=7)


def test_a_commit_contains_the_loaded_versions():
    ranges = {"a": FlowRange(flow="f", source_table_id="i", after_version=None, to_version=3)}
    assert flow_ranges_of({"flows": flows_parameter(ranges)}) == ranges


@pytest.mark.parametrize("value", [None, 7, "", "[]", "[1]", '{"a": 1}', '{"a": {}}', "{", '{"a": {"flow": "f"}}'])
def test_an_invalid_value_of_another_writer_names_no_versions(value):
    assert flow_ranges_of({"flows": value}) == {}
