"""The change data feed of tables with hand-written commits has the right rows and schema, or raises an error."""

from __future__ import annotations

import io
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.change_feed import plan_changes, read_changes
from deltalite.columnar.reader.data_file import data_files
from deltalite.columnar.reader.stream import read_files
from deltalite.errors import (
    ChangeFeedUnavailableError,
    CorruptDataFileError,
    CorruptLogError,
    InvalidRequestError,
    TableNotFoundError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log import action_files
from deltalite.log.file_table import file_key
from deltalite.protocol.actions import AddCDCFile, Protocol
from deltalite.protocol.file_names import commit_name
from deltalite.storage.memory import MemoryLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.vectors import inline_vector
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    RequestLog,
    add,
    commit_info,
    load,
    metadata,
    new_store,
    put_raw,
    remove,
    struct,
)

FEED_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=4)
FEED_ENABLED = {"delta.enableChangeDataFeed": "true"}
FEED_DISABLED = {"delta.enableChangeDataFeed": "false"}
VECTOR_PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors", "changeDataFeed"),
)


def feed_of(*commits, protocol=FEED_PROTOCOL, files=None, **changes) -> MemoryLogStore:
    """A table that enables the feed in version 0, and then has these commits. `files` gives the rows of data files."""
    store = new_store()
    put_raw(store, 0, [protocol, metadata(FEED_ENABLED, **changes)])
    for version, actions in enumerate(commits, 1):
        put_raw(store, version, actions or [commit_info()])
    for name, rows in (files or {}).items():
        write_rows(store, name, rows)
    return store


def write_rows(store, name, rows):
    buffer = io.BytesIO()
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows), buffer)
    store.files[name] = (buffer.getvalue(), NOON_MS)


def ids(*numbers):
    """The rows of a data file with these ids."""
    return pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.nulls(len(numbers), pa.string())})


def rows_of(store, *versions):
    """The version, the change type and the id of each row of the feed."""
    rows = pa.Table.from_batches(read_changes(plan := plan_changes(store, *versions)), plan.arrow_schema)
    columns = ("_commit_version", "_change_type", "id")
    return [tuple(row[name] for name in columns) for row in rows.to_pylist()]


def cdc(path, **changes):
    return AddCDCFile(path=path, **{"partition_values": {}, "size_bytes": 7, "data_change": False, **changes})


def test_rows_have_the_order_of_versions_and_a_change_type():
    change_rows = pa.table({"id": [1, 10], "_change_type": ["update_preimage", "update_postimage"]})
    store = feed_of(
        [add("a"), add("b")],
        [remove("a", data_change=False), add("c", data_change=False)],
        [remove("c"), add("d"), cdc("_change_data/1")],
        [remove("b", deletion_vector=inline_vector([0]))],
        files={"a": ids(1), "b": ids(2, 3), "_change_data/1": change_rows},
    )
    assert rows_of(store, 0) == [
        (1, "insert", 1),
        (1, "insert", 2),
        (1, "insert", 3),
        (3, "update_preimage", 1),
        (3, "update_postimage", 10),
        (4, "delete", 3),
    ]
    assert rows_of(store, 2, 3) == [(3, "update_preimage", 1), (3, "update_postimage", 10)]
    assert rows_of(store, 0, 0) == rows_of(store, 2, 2) == []


def test_batches_have_the_columns_of_the_table_then_change_type_version_and_timestamp():
    store = feed_of([add("a", partition_values={"day": "x"})], partition_columns=("day",), files={"a": ids(1)})
    plan = plan_changes(store, 1)
    (batch,) = read_changes(plan)
    assert batch.schema == plan.arrow_schema == pa.schema(
        {
            "id": pa.int64(),
            "day": pa.string(),
            "_change_type": pa.string(),
            "_commit_version": pa.int64(),
            "_commit_timestamp": pa.timestamp("us", "UTC"),
        }
    )  # fmt: skip
    commit_time = datetime.fromtimestamp(store.files[commit_name(1)][1] / 1000, tz=UTC)
    assert batch.to_pylist() == [
        {"id": 1, "day": "x", "_change_type": "insert", "_commit_version": 1, "_commit_timestamp": commit_time}
    ]


def test_the_timestamp_of_a_change_is_the_time_that_time_travel_uses():
    timestamp_protocol = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("inCommitTimestamp", "changeDataFeed")
    )
    properties = FEED_ENABLED | {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "7000",
    }
    store = feed_of(
        [commit_info(inCommitTimestamp=1), add("a")],
        [commit_info(inCommitTimestamp=7000), timestamp_protocol, metadata(properties), add("b")],
        [commit_info(inCommitTimestamp=8000), add("c")],
    )
    for version in range(4):  # commits with equal file times still have different timestamps
        store.files[commit_name(version)] = (store.files[commit_name(version)][0], 5000)
    assert [f.timestamp_ms for f in plan_changes(store, 1).files] == [5001, 7000, 8000]
    put_raw(store, 3, [add("c")])
    with pytest.raises(CorruptLogError, match=f"{3:020}.json has no valid inCommitTimestamp"):
        plan_changes(store, 1)


@pytest.mark.slow
@given(states=st.lists(st.sets(st.integers(0, 5)), min_size=2, max_size=5))
def test_changes_applied_to_a_version_give_the_next_version(states):
    """Rows of a file are deleted and restored at random. `states` has the deleted rows of each version."""

    def vector_of(deleted_rows):
        return inline_vector(deleted_rows) if deleted_rows else None

    commits = [[add("a", deletion_vector=vector_of(states[0]))]]
    for before, after in pairwise(states):
        removed_files = [] if before == after else [remove("a", deletion_vector=vector_of(before))]
        commits.append([*removed_files, add("a", deletion_vector=vector_of(after), data_change=before != after)])
    store = feed_of(*commits, protocol=VECTOR_PROTOCOL, files={"a": ids(*range(6))})
    for version in range(2, len(states) + 1):
        before, after = (rows_at(store, v) for v in (version - 1, version))
        for _, kind, number in rows_of(store, version, version):
            before[number] += 1 if kind == "insert" else -1
        assert +before == after
        assert min(before.values(), default=0) >= 0


def rows_at(store, version):
    snapshot = load(store, version)
    batches = read_files(store, data_files(snapshot.files), snapshot.table_schema)
    return Counter(number for batch in batches for number in batch["id"].to_pylist())


@pytest.mark.parametrize("versions", [(-1,), (0, -1), (True,), ("0",), (None,), (1.0,), (0, "1")])
def test_an_invalid_version_is_rejected(versions):
    with pytest.raises(InvalidRequestError, match=r"(from|to)_version is "):
        plan_changes(feed_of([]), *versions)


def test_a_range_that_is_out_of_order_or_names_missing_versions_is_rejected():
    store = feed_of([], [])
    with pytest.raises(InvalidRequestError, match="from_version 2 is later than to_version 1"):
        plan_changes(store, 2, 1)
    for versions in ((3,), (3, 3), (0, 3), (7, 9)):
        with pytest.raises(VersionNotFoundError, match="its newest version is 2"):
            plan_changes(store, *versions)
    with pytest.raises(TableNotFoundError):
        plan_changes(new_store(), 0)


def test_versions_before_the_feed_was_enabled_have_no_changes():
    store = feed_of([add("a")], [metadata(FEED_DISABLED)], [add("b")], [metadata(FEED_ENABLED)], [add("c")])
    assert [f.path for f in plan_changes(store, 0, 1).files] == ["a"]
    assert [f.path for f in plan_changes(store, 4).files] == ["c"]
    for versions, version in (((0, 2), 2), ((1, 5), 2), ((2, 2), 2), ((3, 5), 3)):
        with pytest.raises(ChangeFeedUnavailableError, match=f"Version {version} of .* did not record its changes"):
            plan_changes(store, *versions)


@pytest.mark.parametrize(
    "protocol", [PROTOCOL, Protocol(min_reader_version=1, min_writer_version=7, writer_features=("appendOnly",))]
)
def test_the_feed_property_has_no_effect_without_protocol_support(protocol):
    with pytest.raises(ChangeFeedUnavailableError, match="Version 0 of memory://table did not record"):
        plan_changes(feed_of(protocol=protocol), 0)
    with pytest.raises(ChangeFeedUnavailableError, match="Version 1 of memory://table did not record"):
        plan_changes(feed_of([protocol]), 0)


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_a_table_with_a_reserved_column_name_has_no_feed(name):
    with pytest.raises(ChangeFeedUnavailableError, match=f"a column called '{name}'"):
        plan_changes(feed_of(schema=struct(**{"id": "long", name: "string"})), 0)


def test_a_cleaned_up_commit_has_no_changes_though_its_version_is_readable():
    store = feed_of([add("a")], [add("b")], [add("c")])
    write_checkpoint(load(store, 2), now_ms=NOON_MS)
    for version in range(2):
        store.delete(commit_name(version))
    assert [f.path for f in plan_changes(store, 2).files] == ["b", "c"]
    with pytest.raises(VersionNotFoundError, match=r"no longer holds the commit of version 0\. .* with a commit is 2"):
        plan_changes(store, 0)
    store.delete(commit_name(2))
    with pytest.raises(VersionNotFoundError, match="Request changes from version 3 on"):
        plan_changes(store, 2)
    with pytest.raises(VersionNotFoundError, match="version 2 or of any later requested version"):
        plan_changes(store, 2, 2)


def test_a_commit_below_the_oldest_checkpoint_cannot_begin_a_range():
    store = feed_of([add("a")], [add("b")], [add("c")])
    write_checkpoint(load(store, 2), now_ms=NOON_MS)
    store.delete(commit_name(0))
    with pytest.raises(VersionNotFoundError, match="oldest checkpoint is version 2"):
        plan_changes(store, 1)


def test_the_error_names_a_missing_commit_within_the_range():
    store = feed_of([add("a")], [add("b")], [add("c")])
    write_checkpoint(load(store, 2), now_ms=NOON_MS)
    store.delete(commit_name(1))
    with pytest.raises(VersionGapError, match=r"version 1 .* its commit is missing"):
        plan_changes(store, 0)


def test_rows_are_read_with_the_last_schema_of_the_range():
    widened_metadata = metadata(FEED_ENABLED, schema=struct(id="long", note="string"))
    store = feed_of(
        [add("a")],
        [widened_metadata, add("b")],
        schema=struct(id="integer"),
        files={"a": pa.table({"id": pa.array([1], pa.int32())}), "b": pa.table({"id": [2], "note": ["x"]})},
    )
    assert plan_changes(store, 0, 1).arrow_schema.field("id").type == pa.int32()
    rows = pa.Table.from_batches(read_changes(plan_changes(store, 0))).select(["id", "note"])
    assert rows == pa.table({"id": [1, 2], "note": [None, "x"]})


@pytest.mark.parametrize(
    ("incompatible_metadata", "reason"),
    [
        (metadata(FEED_ENABLED, schema=struct(id="long")), "the column 'day' was dropped"),
        (metadata(FEED_ENABLED, schema=struct(id="integer", day="string")), "the type of the column 'id' changed"),
        (metadata(FEED_ENABLED, partition_columns=("day",)), "the partition columns changed"),
    ],
)
def test_the_error_names_the_version_of_an_incompatible_schema_change(incompatible_metadata, reason):
    store = feed_of([add("a")], [metadata(FEED_ENABLED | {"k": "v"})], [incompatible_metadata, add("b")], [add("c")])
    with pytest.raises(ChangeFeedUnavailableError, match=f"changes of version 0 .* in version 3 {reason}") as caught:
        plan_changes(store, 0)
    assert "up to version 2, and from version 3 on" in caught.value.remedy
    assert [f.path for f in plan_changes(store, 0, 2).files] == ["a"]
    assert [f.path for f in plan_changes(store, 3).files] == ["b", "c"]


def test_a_column_that_was_dropped_and_added_again_is_readable():
    store = feed_of(
        [add("a")], [metadata(FEED_ENABLED, schema=struct(id="long"))], [metadata(FEED_ENABLED)], [add("b")]
    )
    assert [f.path for f in plan_changes(store, 0).files] == ["a", "b"]


def test_the_feed_finds_missing_partition_values_of_a_remove_in_the_previous_version():
    store = feed_of(
        [add("a", partition_values={"day": "x"}), add("b", partition_values={"day": "y"})],
        [add("c", partition_values={"day": "z"}), remove("a"), remove("b", partition_values={"day": "y"})],
        partition_columns=("day",),
        files={"a": ids(1), "b": ids(2), "c": ids(3)},
    )
    plan = plan_changes(store, 2)
    assert {f.path: f.partition_values["day"] for f in plan.files} == {"a": "x", "b": "y", "c": "z"}
    put_raw(store, 3, [remove("nowhere")])
    with pytest.raises(ChangeFeedUnavailableError, match="Version 3 of memory://table removes the file 'nowhere'"):
        plan_changes(store, 0)


def test_a_remove_refers_to_the_file_with_the_same_deletion_vector():
    first_vector, second_vector = inline_vector([0]), inline_vector([0, 1])
    store = feed_of(
        [add("a", partition_values={"day": "x"}, deletion_vector=first_vector)],
        [remove("a", deletion_vector=second_vector)],
        protocol=VECTOR_PROTOCOL,
        partition_columns=("day",),
    )
    with pytest.raises(ChangeFeedUnavailableError, match="Version 2 of memory://table removes the file 'a' without"):
        plan_changes(store, 0)
    put_raw(store, 2, [remove("a", deletion_vector=first_vector)])
    assert plan_changes(store, 2).files[0].partition_values == {"day": "x"}


def test_an_unpartitioned_table_needs_no_lookup_of_partition_values():
    store = feed_of([remove("a")])
    requests = RequestLog(store)
    assert plan_changes(store, 1).files[0].partition_values == {}
    # The snapshots at the start and at the end of the range may each read the commit once.
    assert requests.accesses.count(("read", f"{0:020}.json")) <= 2


def test_the_feed_loads_the_previous_version_once_for_many_commits_without_partition_values():
    def reads_of_the_first_commit(count):
        files = [add(f"f{n}", partition_values={"day": str(n)}) for n in range(count)]
        store = feed_of(files, *([remove(f"f{n}")] for n in range(count)), partition_columns=("day",))
        requests = RequestLog(store)
        plan = plan_changes(store, 2)
        assert [f.partition_values["day"] for f in plan.files] == [str(n) for n in range(count)]
        assert max(Counter(requests.accesses).values()) < 5
        return requests.accesses.count(("read", commit_name(1).rpartition("/")[2]))

    assert reads_of_the_first_commit(4) == reads_of_the_first_commit(12)


@given(
    commits=st.lists(
        st.tuples(st.dictionaries(st.integers(0, 3), st.sampled_from("xyz"), min_size=1), st.booleans(), st.booleans()),
        max_size=8,
    )
)
def test_partition_values_of_a_deleted_file_come_from_the_previous_version(commits):
    """Files are added, removed and added to another partition, also with change files or without a data change."""
    live_numbers, actions = set(), []
    for days, has_change_file, data_change in commits:
        actions.append([cdc("_change_data/1", partition_values={"day": "x"})] if has_change_file else [])
        for number, day in days.items():
            vector = inline_vector([number]) if number % 2 else None
            if number in live_numbers:
                actions[-1].append(remove(f"f{number}", deletion_vector=vector, data_change=data_change))
            else:
                values = {"day": day}
                actions[-1].append(
                    add(f"f{number}", partition_values=values, deletion_vector=vector, data_change=data_change)
                )
        live_numbers ^= days.keys()
    store = feed_of(*actions, protocol=VECTOR_PROTOCOL, partition_columns=("day",))
    for file in plan_changes(store, 1).files if actions else ():
        if file.change_type == "delete":
            previous_files = load(store, file.version - 1).files.to_pylist()
            assert [file.partition_values] == [
                dict(row["partitionValues"])
                for row in previous_files
                if file_key(row["path"], row["deletionVector"]) == file_key(file.path, file.deletion_vector)
            ]


def test_a_second_remove_of_a_file_has_no_partition_values():
    store = feed_of([add("a", partition_values={"day": "x"})], [remove("a")], [remove("a")], partition_columns=("day",))
    assert plan_changes(store, 1, 2).files[1].partition_values == {"day": "x"}
    with pytest.raises(ChangeFeedUnavailableError, match="Version 3 of memory://table removes the file 'a' without"):
        plan_changes(store, 1)


def test_a_large_commit_is_read_in_blocks(monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 500)
    store = feed_of([add(f"f{n}") for n in range(50)], [cdc("_change_data/1"), *(remove(f"f{n}") for n in range(50))])
    requests = RequestLog(store)
    assert [f.path for f in plan_changes(store, 0).files] == [*(f"f{n}" for n in range(50)), "_change_data/1"]
    assert {operation for operation, name in requests.accesses if name in (f"{1:020}.json", f"{2:020}.json")} == {
        "open"
    }


def test_the_feed_uses_the_snapshot_of_the_caller():
    store = feed_of([add("a")], [add("b")])
    snapshot = load(store, 2)
    requests = RequestLog(store)
    assert plan_changes(store, 2, 2, loaded_snapshot=snapshot).snapshot is snapshot
    assert requests.accesses == [("list", f"{0:020}"), ("read", f"{2:020}.json")]
    assert plan_changes(store, 1, 1, loaded_snapshot=snapshot).snapshot.version == 1
    assert plan_changes(store, 1, loaded_snapshot=load(store, 1)).snapshot.version == 2


def test_a_change_data_file_without_change_types_is_rejected():
    for rows in (ids(1), pa.table({"id": [1, 2], "_change_type": ["insert", None]})):
        store = feed_of([cdc("_change_data/1")], files={"_change_data/1": rows})
        with pytest.raises(CorruptDataFileError, match="change data file of version 1"):
            list(read_changes(plan_changes(store, 0)))


def test_the_feed_ignores_a_change_type_column_in_a_data_file():
    store = feed_of([add("a")], files={"a": pa.table({"id": [1], "_change_type": ["delete"]})})
    assert rows_of(store, 0) == [(1, "insert", 1)]


def test_the_error_names_a_vacuumed_data_file():
    with pytest.raises(CorruptDataFileError, match="gone"):
        list(read_changes(plan_changes(feed_of([add("gone")]), 0)))
