"""The differences between two versions, by kind: files, rows, columns, properties, protocol, metadata."""

from __future__ import annotations

import pytest

from deltalite.inspection.diff import ChangeKind, diff
from deltalite.protocol.actions import DomainMetadata, Protocol
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from tests.unit.builders import add, load, metadata, new_store, put_raw, remove, vector

LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")
PLAIN = Protocol(min_reader_version=1, min_writer_version=2)


def diff_between(first, second, *, protocol=PLAIN):
    """The difference between version 0 with the actions `first` and version 1 with the actions `second`."""
    store = new_store()
    put_raw(store, 0, [protocol, *first])
    put_raw(store, 1, second)
    return diff(load(store, 0), load(store, 1))


def schema_changes(before, after, **configuration):
    protocol = Protocol(min_reader_version=2, min_writer_version=5) if configuration else PLAIN
    both_metadata = [metadata(configuration, schema=StructType(tuple(side))) for side in (before, after)]
    return [
        (c.kind.value, c.subject, c.aspect, c.before, c.after)
        for c in diff_between([both_metadata[0]], [both_metadata[1]], protocol=protocol).schema
    ]


def test_the_diff_shows_the_files_and_rows_that_only_one_version_has():
    files = [add(name, stats='{"numRecords":5}', size_bytes=size) for name, size in (("a", 10), ("b", 20))]
    result = diff_between([metadata(), *files], [remove("a"), add("c", stats='{"numRecords":2}', size_bytes=7)])
    assert (result.files.added["path"].to_pylist(), result.files.removed["path"].to_pylist()) == (
        ["c"],
        ["a"],
    )
    assert (result.files.kept, result.files.added_bytes, result.files.removed_bytes) == (1, 7, 10)
    rows = result.rows
    assert (rows.before, rows.after, rows.in_added_files, rows.in_removed_files) == (10, 7, 2, 5)
    assert not result.is_empty and result.schema == result.properties == result.protocol == result.metadata == ()


def test_a_changed_deletion_vector_is_not_another_file():
    with_vector = add("a", stats='{"numRecords":5}', deletion_vector=vector("x" * 20))
    first = [metadata(), add("a", stats='{"numRecords":5}')]
    result = diff_between(first, [remove("a"), with_vector])
    assert (
        result.files.vectors_changed,
        result.files.kept,
        result.rows.before,
        result.rows.after,
    ) == (1, 0, 5, 4)


def test_the_number_of_rows_is_unknown_if_one_file_has_no_count():
    differences = diff_between([metadata(), add("a", stats='{"numRecords":5}')], [add("b")])
    assert (differences.rows.before, differences.rows.after, differences.rows.in_added_files) == (5, None, None)
    assert differences.rows.in_removed_files == 0


def test_two_equal_versions_have_an_empty_diff():
    assert diff_between([metadata(), add("a")], [remove("b")]).is_empty


def test_added_dropped_and_changed_columns_are_found_at_every_depth():
    def nested(*members):
        return MapType(TEXT, ArrayType(StructType(members)))

    before = [
        StructField("id", LONG),
        StructField("gone", TEXT),
        StructField("wide", PrimitiveType("integer"), nullable=False),
        StructField("deep", nested(StructField("x", LONG))),
    ]
    after = [
        StructField("id", LONG, metadata={"comment": "the key", "k": 1}),
        StructField("wide", LONG),
        StructField("deep", nested(StructField("x", LONG), StructField("y", TEXT))),
        StructField("new", ArrayType(TEXT, contains_null=False)),
    ]
    assert schema_changes(before, after) == [
        ("removed", "gone", None, "string", None),
        ("changed", "id", "comment", None, "the key"),
        ("changed", "id", "metadata", {}, {"k": 1}),
        ("changed", "wide", "type", "int", "bigint"),
        ("changed", "wide", "nullability", "not null", "nullable"),
        ("added", "deep.value.element.y", None, None, "string"),
        ("added", "new", None, None, "array<string not null>"),
    ]


def test_a_changed_column_order_is_reported_and_an_appended_column_is_not():
    a, b, c = (StructField(name, LONG) for name in "abc")
    assert schema_changes([a, b], [b, a]) == [("changed", "order of columns", None, "a, b", "b, a")]
    assert schema_changes([a, b], [a, c, b]) == [("added", "c", None, None, "bigint")]


def mapped(name, number, data_type=LONG):
    return StructField(name, data_type, metadata={FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"})


def test_column_mapping_distinguishes_a_rename_from_a_drop_and_an_add():
    members = StructType((mapped("x", 3),))
    renamed = StructType((mapped("y", 3),))
    mode = {"delta.columnMapping.mode": "name"}
    assert schema_changes(
        [mapped("a", 1), mapped("s", 2, members)], [mapped("b", 1), mapped("s", 2, renamed)], **mode
    ) == [
        ("renamed", "a", None, "a", "b"),
        ("renamed", "s.x", None, "s.x", "s.y"),
    ]
    assert schema_changes([mapped("a", 1)], [mapped("a", 4)], **mode) == [
        ("removed", "a", None, "bigint", None),
        ("added", "a", None, None, "bigint"),
    ]
    assert schema_changes([StructField("a", LONG)], [StructField("b", LONG)])[0][0] == "removed"


def test_properties_protocol_and_metadata_are_compared_by_key():
    later = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("invariants", "domainMetadata"))
    domain = DomainMetadata(domain="d", configuration="{}", removed=False)
    differences = diff_between(
        [metadata({"a": "1", "b": "2"}, name="old")],
        [later, domain, metadata({"b": "3", "c": "4"}, name="new", id="other", partition_columns=("day",))],
    )
    assert [(c.kind, c.subject, c.before, c.after) for c in differences.properties] == [
        (ChangeKind.REMOVED, "a", "1", None), (ChangeKind.CHANGED, "b", "2", "3"), (ChangeKind.ADDED, "c", None, "4"),
    ]  # fmt: skip
    assert [(c.kind.value, c.subject) for c in differences.protocol] == [
        ("changed", "minWriterVersion"), ("added", "domainMetadata"), ("removed", "appendOnly"),
    ]  # fmt: skip
    assert [(c.kind.value, c.subject, c.before, c.after) for c in differences.metadata] == [
        ("changed", "id", "t", "other"), ("changed", "name", "old", "new"),
        ("changed", "partitionColumns", [], ["day"]), ("added", "d", None, "{}"),
    ]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_the_first_version_may_be_the_newer_one(first, second):
    store = new_store()
    put_raw(store, 0, [PLAIN, metadata(), add("a")])
    put_raw(store, 1, [add("b")])
    result = diff(load(store, first), load(store, second))
    assert (result.files.added.num_rows, result.files.removed.num_rows) == ((1, 0) if first < second else (0, 1))
