"""The statistics of a column come from the log: exact values or bounds, or unknown if a file has no statistics."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import VersionNotFoundError
from deltalite.inspection import column_statistics as module
from deltalite.inspection.column_bounds import Bound
from deltalite.inspection.column_statistics import ColumnStatistics, read_column_statistics
from deltalite.inspection.columns import column_rows
from deltalite.protocol.actions import Protocol
from deltalite.protocol.schema import parse_schema
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.valid_table import create_valid_table
from tests.unit.builders import add, commit_actions, create, metadata, new_store, struct, vector

VECTOR = {**vector("ab^-aqEH.-t@S}K{vb[*k^"), "cardinality": 2}
VECTOR_PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors",),
    writer_features=("deletionVectors",),
)


def stats(*, records=10, low=None, high=None, nulls=None, column="c", **members) -> str:
    """The statistics of a file with one column."""
    values = {"minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(
        {"numRecords": records, **{k: {column: v} for k, v in values.items() if v is not None}, **members}
    )


def statistics_of_files(kind, *texts, **fields) -> ColumnStatistics:
    """The statistics of a table with one column and a file for each text. The `add` of the last file has `fields`."""
    store = new_store()
    schema = parse_schema(json.dumps({"type": "struct", "fields": [field("c", kind)]}))
    adds = [add(f"f{n}", stats=text, **(fields if n == len(texts) - 1 else {})) for n, text in enumerate(texts)]
    commit_actions(store, VECTOR_PROTOCOL, metadata(schema=schema), *adds, read_version=-1)
    [statistics] = read_column_statistics(store, 0)
    assert statistics is not None
    return statistics


def field(name, kind, **field_metadata):
    return {"name": name, "type": kind, "nullable": True, "metadata": field_metadata}


def exact(text):
    return Bound(text=text, is_exact=True)


def inexact(text):
    return Bound(text=text, is_exact=False)


def test_files_without_removed_rows_have_exact_statistics():
    texts = [stats(low=3, high=9, nulls=2), stats(low=-1, high=4, nulls=0)]
    assert statistics_of_files("long", *texts) == ColumnStatistics(nulls=2, low=exact("-1"), high=exact("9"))
    assert statistics_of_files("long") == ColumnStatistics(nulls=0)


@pytest.mark.parametrize(
    "text", [None, "", "no json", "[]", "{}", '{"numRecords": 10}', stats(nulls="x", low={}, high=[])]
)
def test_one_file_without_statistics_makes_the_column_unknown(text):
    assert statistics_of_files("long", stats(low=3, high=9, nulls=2), text) == ColumnStatistics(nulls=None)


def test_a_file_with_nulls_only_has_no_bounds():
    texts = [stats(low=3, high=9, nulls=0), stats(nulls=10)]
    assert statistics_of_files("long", *texts) == ColumnStatistics(nulls=10, low=exact("3"), high=exact("9"))
    assert statistics_of_files("long", stats(nulls=10)) == ColumnStatistics(nulls=10)
    texts[1] = stats(nulls=0, records=0)  # the writer may not have counted
    assert statistics_of_files("long", *texts).low is None


def test_contradictory_statistics_are_unknown():
    assert statistics_of_files("long", stats(low=9, high=3, nulls=11)) == ColumnStatistics(nulls=None)
    assert statistics_of_files("long", stats(low=1, high=3, nulls=-1)).nulls is None
    assert statistics_of_files("long", stats(records=1, nulls=1), deletion_vector=VECTOR).nulls is None


def test_the_values_of_a_file_with_a_deletion_vector_are_only_bounds():
    texts = [stats(low=3, high=9, nulls=0), stats(low=1, high=5, nulls=0, tightBounds=False)]
    statistics = statistics_of_files("long", *texts, deletion_vector=VECTOR)
    assert statistics == ColumnStatistics(nulls=0, low=inexact("1"), high=exact("9"))
    assert statistics_of_files("long", *texts).low == inexact("1"), "wide bounds also count without a vector"
    texts[1] = stats(low=1, high=5, nulls=0)
    assert statistics_of_files("long", *texts, deletion_vector=VECTOR).low == inexact("1")


@pytest.mark.parametrize(
    ("nulls", "expected"),
    [
        (0, ColumnStatistics(nulls=0)),
        (10, ColumnStatistics(nulls=8)),
        (4, ColumnStatistics(nulls=8, are_nulls_exact=False)),
        (None, ColumnStatistics(nulls=None)),
    ],
)
def test_with_a_deletion_vector_a_null_count_is_exact_if_no_row_or_every_row_is_null(nulls, expected):
    statistics = statistics_of_files("boolean", stats(nulls=nulls, tightBounds=False), deletion_vector=VECTOR)
    assert statistics == expected


def test_a_file_whose_rows_are_all_removed_does_not_count():
    texts = [stats(low=3, high=9, nulls=1), stats(records=2, low=1, high=20, nulls=1, tightBounds=False)]
    statistics = statistics_of_files("long", *texts, deletion_vector=VECTOR)
    assert statistics == ColumnStatistics(nulls=1, low=exact("3"), high=exact("9"))


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("string", "a", "é", (exact("a"), exact("é"))),
        ("string", "a" * 32, "b" * 32 + "\x7f", (inexact("a" * 32 + "…"), inexact("b" * 32 + "…"))),
        ("string", "a" * 500, "b\U0010ffff", (inexact("a" * 60 + "…"), inexact("b…"))),
        ("string", "password='secret'", "\u202ea", (exact("password=***"), exact("\\u202ea"))),
        ("date", "2026-01-01", "2026-02-30", (exact("2026-01-01"), None)),
        ("timestamp", "2026-01-01T01:00:00.120+01:00", "2026-01-02T00:00:00Z",
         (exact("2026-01-01 00:00:00.120000Z"), exact("2026-01-02 00:00:00.000000Z"))),
        ("float", 0.1, 2.5, (exact("0.1"), exact("2.5"))),
        ("double", "-Infinity", 2.5, (None, exact("2.5"))),
        ("decimal(38,2)", 1.25, 2**63 - 1, (exact("1.25"), None)),
        ("decimal(38,2)", 1.25, 1234567890123456.78, (exact("1.25"), inexact("1234567890123456.80"))),
        ("boolean", False, True, (None, None)),
        ("binary", "a", "b", (None, None)),
    ],
)  # fmt: skip
def test_values_have_the_texts_of_their_types(kind, low, high, expected):
    statistics = statistics_of_files(kind, stats(low=low, high=high, nulls=0))
    assert (statistics.low, statistics.high) == expected
    assert statistics.nulls == 0


def test_fields_of_structs_have_the_physical_names_of_the_log():
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    inner = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-2"}
    items = {"type": "array", "elementType": "long", "containsNull": True}
    third = {"delta.columnMapping.id": 3, "delta.columnMapping.physicalName": "col-3"}
    fields = [
        field("outer", {"type": "struct", "fields": [field("a.b", "long", **inner)]}, **mapped),
        field("items", items, **third),
    ]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    store = new_store()
    text = json.dumps(
        {
            "numRecords": 5,
            "minValues": {"col-1": {"col-2": 1}, "outer": {"a.b": 7}},
            "maxValues": {"col-1": {"col-2": 3}},
            "nullCount": {"col-1": {"col-2": 2}, "col-3": 1},
        }
    )
    mapping = {"delta.columnMapping.mode": "name"}
    commit_actions(
        store,
        Protocol(min_reader_version=2, min_writer_version=5),
        metadata(mapping, schema),
        add("f", stats=text),
        read_version=-1,
    )
    assert [row.name for row in column_rows(schema, ())] == ["outer", "a.b", "items"]
    expected = ColumnStatistics(nulls=2, low=exact("1"), high=exact("3"))
    assert read_column_statistics(store, 0) == (None, expected, None)


def test_partition_columns_take_their_values_from_the_partition_values():
    schema = struct(id="long", day="date", country="string")
    store = create(
        new_store(),
        add("a", partition_values={"day": "2026-01-02", "country": "FR"}, stats=stats(records=5)),
        add("b", partition_values={"day": "2026-01-10", "country": ""}, stats=stats(records=7)),
        add("c", partition_values={"day": "2026-01-10", "country": None}, stats=stats(records=1)),
        schema=schema,
        partition_columns=("day", "country"),
    )
    _, day, country = read_column_statistics(store, 0)
    assert day == ColumnStatistics(nulls=0, low=exact("2026-01-02"), high=exact("2026-01-10"))
    assert country == ColumnStatistics(nulls=8, low=exact("FR"), high=exact("FR"))
    commit_actions(store, add("d", partition_values={"day": "nonsense", "country": None}))
    _, day, country = read_column_statistics(store, 1)
    assert (day, country.nulls) == (ColumnStatistics(nulls=0), None)


def test_blocks_give_the_statistics_of_all_files(monkeypatch):
    texts = [stats(low=n, high=n * 2, nulls=n % 2) for n in range(1, 8)]
    expected = ColumnStatistics(nulls=4, low=exact("1"), high=exact("14"))
    monkeypatch.setattr(module, "_BLOCK_FILES", 2)
    assert statistics_of_files("long", *texts) == expected


def test_statistics_are_bounded_and_belong_to_their_version(tmp_path, monkeypatch):
    store = create_valid_table(tmp_path / "t")
    assert [s.nulls for s in read_column_statistics(store, 0)] == [1 if n == 1 else 0 for n in range(3)]
    assert [s.high.text for s in read_column_statistics(store, 5)][:1] == ["7"]
    with pytest.raises(VersionNotFoundError):
        read_column_statistics(store, 99)
    monkeypatch.setattr(module, "MAX_COLUMNS", 2)
    assert len(read_column_statistics(store, 5)) == 2


def test_statistics_of_a_checkpoint_without_json_texts_are_the_same(tmp_path):
    configuration = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    store = create(
        LocalLogStore(str(tmp_path / "t")),
        add("f", stats=stats(low=1.5, high=2.25, nulls=3)),
        schema=parse_schema(json.dumps({"type": "struct", "fields": [field("c", "decimal(10,2)")]})),
        configuration=configuration,
    )
    before = read_column_statistics(store, 0)
    write_checkpoint(Snapshot.load(store), now_ms=0)
    assert read_column_statistics(store, 0) == before == (
        ColumnStatistics(nulls=3, low=exact("1.50"), high=exact("2.25")),
    )  # fmt: skip


@pytest.mark.parametrize(("texts", "high"), [(("NaN", "1.5"), exact("1.5")), (("NaN",), None)])
def test_a_float_partition_leaves_out_nan(texts, high):
    store = create(
        new_store(),
        *(add(f"f{n}", partition_values={"c": text}, stats=stats(records=1)) for n, text in enumerate(texts)),
        schema=struct(id="long", c="double"),
        partition_columns=("c",),
    )
    assert read_column_statistics(store, 0)[1].high == high
