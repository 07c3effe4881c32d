"""A load reads the log of its source, and plans the files of the versions that the target does not have yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.commands.flows import loads as loads_module
from deltalite.commands.flows.loads import Loads, plan_load
from deltalite.commands.flows.ranges import Loss, choose_range
from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.errors import ChangeFeedUnavailableError, InvalidRequestError, SourceGapError, SourceRowsChangedError
from deltalite.protocol.actions import Protocol
from deltalite.requests import RestoreRequest, RunIdentity, Source, TableRequest
from deltalite.storage.local import LocalLogStore
from deltalite.txn.flows import FlowId, flow_offsets
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.properties import FEED
from tests.unit.builders import (
    NOON_MS,
    add,
    append_files,
    commit_actions,
    create,
    load,
    metadata,
    new_store,
    remove,
    struct,
    txn,
)

WITH_FEED = Protocol(min_reader_version=1, min_writer_version=4)
FLOW = FlowId(name="f", source_table_id="t")


def planned(store, offset=None, *, loss=None, **options):
    """The bounds of the load, and the paths of its files; None instead of paths for a snapshot."""
    source = Source(format="delta", path="/s", incremental="f", **options)
    transactions = {} if offset is None else {FLOW.app_id: txn(FLOW.app_id, offset)}
    flow_range, source_load = plan_load(store, source, "f", transactions, loss)
    paths = None if source_load.plan is None else [file.path for file in source_load.plan.files]
    assert source_load.is_empty is flow_range.is_empty
    assert source_load.has_change_columns is (options.get("read") == "changes")
    assert source_load.snapshot.version == flow_range.to_version
    return flow_range.after_version, flow_range.to_version, paths


@pytest.fixture
def source():
    """A source with the files `f0` to `f3` in the versions 0 to 3."""
    return append_files(create(new_store(), add("f0")), 3)


def test_the_first_load_is_the_snapshot_and_later_loads_are_the_files_of_new_versions(source):
    assert planned(source) == (None, 3, None)
    assert planned(source, 1) == (1, 3, ["f2", "f3"])
    assert planned(source, 3) == (3, 3, None)


def test_a_flow_without_an_offset_can_begin_with_a_version(source):
    assert planned(source, starting_version=2) == (1, 3, ["f2", "f3"])
    assert planned(source, starting_version=0) == (-1, 3, ["f0", "f1", "f2", "f3"])
    assert planned(source, starting_version=4) == (3, 3, None)
    assert planned(source, 2, starting_version=0) == (2, 3, ["f3"]), "the offset takes precedence"
    with pytest.raises(SourceGapError, match=r"'f' cannot begin with version 5 of .*newest version of the source is 3"):
        planned(source, starting_version=5, on_gap="reload")  # the target may have the rows of the snapshot


@pytest.mark.parametrize(
    ("limits", "last"),
    [({"max_versions": 2}, 2), ({"max_bytes": 20}, 2), ({"max_bytes": 29}, 2), ({"max_bytes": 1}, 1),
     ({"max_versions": 2, "max_bytes": 1}, 1), ({"max_versions": 1, "max_bytes": 99}, 1)],
)  # fmt: skip
def test_both_limits_end_a_load(source, limits, last):
    assert planned(source, 0, **limits) == (0, last, [f"f{version}" for version in range(1, last + 1)])


def test_the_snapshot_is_not_limited(source):
    assert planned(source, max_versions=1, max_bytes=1) == (None, 3, None)


def test_changes_come_from_the_feed():
    store = create(new_store(), add("f0"))
    commit_actions(store, WITH_FEED, metadata(FEED))
    append_files(store, 1)
    commit_actions(store, remove("f0", partition_values={}, size_bytes=10))
    assert planned(store, 1, read="changes") == (1, 3, ["f2", "f0"])
    with pytest.raises(SourceRowsChangedError, match="Version 3"):
        planned(store, 1)
    assert planned(store, 1, on_change="skip") == (1, 3, ["f2"])


def test_changes_need_the_feed(source):
    with pytest.raises(ChangeFeedUnavailableError, match="the change data feed, which is off"):
        planned(source, read="changes")
    commit_actions(source, WITH_FEED, metadata(FEED))
    assert planned(source, read="changes") == (None, 4, None)
    with pytest.raises(SourceGapError, match=r"up to version 2, .*Version 3 .* did not record its changes"):
        planned(source, 2, read="changes")
    assert planned(source, 2, read="changes", on_gap="reload") == (None, 4, None)
    with pytest.raises(SourceGapError, match=r"cannot begin with version 3 .*did not record.*Correct starting_version"):
        planned(source, read="changes", starting_version=3, on_gap="reload")
    commit_actions(source, metadata())
    with pytest.raises(ChangeFeedUnavailableError, match="which is off"):  # each later run would load all rows again
        planned(source, 4, read="changes", on_gap="reload")


@pytest.mark.parametrize("read", ["appends", "changes"])
def test_a_load_ends_before_a_change_of_the_schema_and_the_next_load_begins_there(read):
    store = create(new_store())
    commit_actions(store, WITH_FEED, metadata(FEED))
    append_files(store, 2)
    commit_actions(store, metadata(FEED, schema=struct(id="string", day="string")), remove("f2", partition_values={}))
    commit_actions(store, metadata(FEED, schema=struct(id="boolean", day="string")), add("f5"))
    options = {"read": read, "on_change": "skip"} if read == "appends" else {"read": read}
    assert planned(store, 1, **options) == (1, 3, ["f2", "f3"])
    if read == "appends":
        assert planned(store, 3, **options) == (3, 4, [])
    else:
        reason = r"version 4 removes rows that its schema may not read: the type of the column 'id' changed"
        with pytest.raises(SourceGapError, match=reason + ".*on_gap='reload'.*reset_flows"):
            planned(store, 3, **options)
        assert planned(store, 3, on_gap="reload", **options) == (None, 5, None)
    assert planned(store, 4, **options) == (4, 5, ["f5"])


@pytest.mark.parametrize(
    ("changed_metadata", "is_gap"),
    [
        (metadata(FEED, schema=struct(day="string")), False),  # the rows lose a column
        (metadata(FEED, schema=struct(id="long", day="string"), partition_columns=("day",)), True),
    ],
)
def test_removed_rows_of_an_older_schema_are_read_if_the_new_schema_can_read_them(changed_metadata, is_gap):
    store = create(new_store())
    commit_actions(store, WITH_FEED, metadata(FEED, schema=struct(id="long", day="string")))
    append_files(store, 1)
    commit_actions(store, changed_metadata, remove("f2", partition_values={}))
    if is_gap:
        with pytest.raises(SourceGapError, match=r"version 3 .* may not read: the partition columns changed"):
            planned(store, 2, read="changes")
    else:
        assert planned(store, 2, read="changes") == (2, 3, ["f2"])


@pytest.mark.parametrize("removes_rows", [True, False])
def test_removed_rows_are_a_gap_if_the_log_no_longer_has_their_schema(removes_rows):
    """Log cleanup has deleted the offset's version, and the next version changes the partition columns."""
    store = create(new_store())
    commit_actions(store, WITH_FEED, metadata(FEED))
    append_files(store, 1)
    changed_metadata = metadata(FEED, schema=struct(id="long", day="string"), partition_columns=("day",))
    commit_actions(store, changed_metadata, *([remove("f2", partition_values={})] if removes_rows else []))
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(3):
        store.files.pop(f"_delta_log/{version:020}.json")
    if removes_rows:
        with pytest.raises(SourceGapError, match=r"version 3 .*the log no longer has the version before") as caught:
            planned(store, 2, read="changes")
        assert "earliest available" not in str(caught.value), "the log has these versions"
        assert planned(store, 2, read="changes", on_gap="reload") == (None, 3, None)
    else:
        assert planned(store, 2, read="changes") == (2, 3, [])


def test_log_cleanup_above_the_offset_is_a_gap(source, caplog):
    write_checkpoint(load(source), now_ms=NOON_MS)
    for name in [name for name in source.files if name.endswith((f"{0:020}.json", f"{1:020}.json", f"{2:020}.json"))]:
        source.files.pop(name)
    assert planned(source, 2) == (2, 3, ["f3"])
    with pytest.raises(SourceGapError, match="earliest available version is 3"):
        planned(source, 1)
    assert not caplog.records
    assert planned(source, 1, on_gap="reload") == (None, 3, None)
    assert "Loading the complete source" in caplog.text and "no longer holds version 2" in caplog.text


@pytest.mark.parametrize("read", ["appends", "changes"])
def test_commits_without_a_checkpoint_that_rebuilds_their_versions_are_a_gap(read):
    store = create(new_store())
    commit_actions(store, WITH_FEED, metadata(FEED))
    append_files(store, 4)
    write_checkpoint(load(store, 4), now_ms=NOON_MS)
    for version in (0, 1):  # some engines delete commits by their age only
        store.files.pop(f"_delta_log/{version:020}.json")
    with pytest.raises(SourceGapError, match=r"'f' has loaded .* up to version 1, .*has lost versions"):
        planned(store, 1, read=read)
    assert planned(store, 1, read=read, on_gap="reload") == (None, 5, None)


@pytest.mark.parametrize("limits", [{}, {"max_versions": 1}])
def test_a_source_that_was_another_table_for_a_while_is_a_gap(source, limits):
    """Another engine replaced the table, and then restored it with its old id."""
    commit_actions(source, metadata(id="another"), add("of another"))
    commit_actions(source, metadata())
    with pytest.raises(SourceGapError, match="the source was another table in a version from 4 to"):
        planned(source, 3, on_change="skip", **limits)
    assert planned(source, 3, on_gap="reload", **limits) == (None, 5, None)


@pytest.mark.parametrize("options", [{}, {"max_bytes": 1}])
def test_a_commit_that_cleanup_deletes_during_the_plan_is_a_gap(source, options, monkeypatch):
    def choose_and_clean(*arguments):
        source.files.pop(f"_delta_log/{2:020}.json")
        return choose_range(*arguments)

    monkeypatch.setattr(loads_module, "choose_range", choose_and_clean)
    with pytest.raises(SourceGapError, match="has lost versions"):
        planned(source, 1, **options)


def test_lost_files_of_versions_that_are_not_loaded_are_a_gap(source):
    loss = Loss(file_name="f1", first_version=1, last_version=2)
    problem = r"up to version 0.*a file of version 1 no longer exists, perhaps after a vacuum \(f1\)"
    with pytest.raises(SourceGapError, match=f"{problem}.*earliest available version is 3"):
        planned(source, 0, loss=loss)
    with pytest.raises(SourceGapError, match="no longer exists"):
        planned(source, 1, loss=loss)
    assert planned(source, 1, loss=loss, on_gap="reload") == (None, 3, None)
    assert planned(source, 2, loss=loss) == (2, 3, ["f3"])
    with pytest.raises(SourceGapError, match=r"cannot begin with version 2 .*no longer exists"):
        planned(source, starting_version=2, loss=loss, on_gap="reload")
    with pytest.raises(SourceGapError, match=r"No version after the loss, up to the newest version 3, can be loaded"):
        planned(source, 0, loss=replace(loss, last_version=3))


def test_only_loads_with_new_versions_move_their_offsets(source):
    sources = Source(format="delta", path="/s", incremental="f"), Source(format="delta", path="/s", incremental="g")
    loads = [
        plan_load(source, sources[0], "f", {FLOW.app_id: txn(FLOW.app_id, 3)}),
        plan_load(source, sources[1], "g", {}),
    ]
    both = Loads(ranges={"a": loads[0][0], "b": loads[1][0]}, source_loads={"a": loads[0][1], "b": loads[1][1]})
    assert [(offset.app_id, offset.version) for offset in both.record()] == [("deltalite-flow/g/t", 3)]
    reads = ReadSet(app_id_prefixes=("other/",))
    assert both.extended_reads(reads).app_id_prefixes == ("other/", "deltalite-flow/f/", "deltalite-flow/g/")
    assert not both.has_nothing_new and Loads(ranges={"a": loads[0][0]}).has_nothing_new
    assert not Loads().has_nothing_new and not Loads().parameters and not Loads().record()


def offset_of(table):
    return flow_offsets(load(LocalLogStore(str(table))).transactions)[FLOW].version


@pytest.fixture
def target(tmp_path):
    """A table whose versions 1 and 2 set the offset of a flow to 3 and 7. The flow is unknown in version 0."""
    table = tmp_path / "target"
    store = create(LocalLogStore(str(table)))
    for version in (3, 7):
        commit_actions(store, txn(FLOW.app_id, version))
    return table


def test_a_restore_puts_the_offset_back(target):
    for version, expected in ((1, 3), (2, 7), (0, -1)):
        result = restore(None, RestoreRequest(table=str(target), version=version))
        assert (result.committed, offset_of(target)) == (True, expected)
    assert not restore(None, RestoreRequest(table=str(target), version=0)).committed


def test_a_reset_sets_the_offset_in_a_commit(target):
    reset = TableRequest(table=str(target), reset_flows={"f": 5}, identity=RunIdentity(app_id="reset"))
    result = define_table(None, reset)
    assert (result.operation, result.version, result.committed, offset_of(target)) == ("ALTER TABLE", 3, True, 5)
    info = load(LocalLogStore(str(target))).commit_info
    assert info["operationParameters"] == {"resetFlows": '{"f": 5}'}
    assert define_table(None, reset).skipped
    define_table(None, TableRequest(table=str(target), reset_flows={"f": None}))
    assert offset_of(target) == -1
    assert not define_table(None, TableRequest(table=str(target), reset_flows={"f": None})).committed


def test_a_table_with_offsets_refuses_the_property_that_expires_them(target):
    properties = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    with pytest.raises(
        InvalidRequestError,
        match=r"Could not set delta\.setTransactionRet.*Other engines would remove",
    ):
        define_table(None, TableRequest(table=str(target), properties=properties))
    commit_actions(LocalLogStore(str(target)), metadata(properties))  # by another engine
    assert define_table(None, TableRequest(table=str(target), description="d")).committed


def test_an_offset_does_not_expire(target):
    store = LocalLogStore(str(target))
    commit_actions(store, metadata({"delta.setTransactionRetentionDuration": "interval 1 second"}), txn("run", 1))
    write_checkpoint(load(store), now_ms=NOON_MS)
    assert offset_of(target) == 7 and "run" not in load(store).transactions


def test_a_reset_of_an_unknown_flow_is_refused(target):
    with pytest.raises(InvalidRequestError, match=r"has no offset of it\. Its flows: 'f'"):
        define_table(None, TableRequest(table=str(target), reset_flows={"g": 1}))
