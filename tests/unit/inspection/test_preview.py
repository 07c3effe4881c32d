"""A preview has the rows that readers see, as bounded texts, and ends at its limits."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.errors import CorruptDataFileError, InvalidRequestError, VersionNotFoundError
from deltalite.inspection import preview
from deltalite.inspection.preview import Limit, read_preview
from deltalite.protocol.actions import Protocol
from deltalite.protocol.schema import parse_schema
from deltalite.storage.local import LocalLogStore
from tests.support.valid_table import SCHEMA, create_valid_table, write_data_file
from tests.unit.builders import add, commit_actions, create, metadata


def preview_of(store, version, *conditions, **options):
    return read_preview(store, version, conditions, **{"max_seconds": 60.0, **options})


@pytest.fixture
def orders(tmp_path):
    return create_valid_table(tmp_path / "orders")


def test_a_preview_has_the_live_rows_of_its_version(orders):
    result = preview_of(orders, 5)
    assert result.columns == ("id", "name", "day") and result.limit is Limit.NONE
    assert sorted(row[0] for row in result.rows) == ["4", "5", "6", "7"], "row 3 is soft-deleted"
    assert preview_of(orders, 0).rows == (("1", "x", "2026-01-01"), ("2", None, "2026-01-01"))
    with pytest.raises(VersionNotFoundError):
        preview_of(orders, 99)


def test_conditions_select_rows(orders):
    assert sorted(row[0] for row in preview_of(orders, 5, "id > 4", "id <= 6").rows) == ["5", "6"]
    assert preview_of(orders, 5, "day = 2026-01-02").rows == ()
    for hostile in ("1=1; DROP TABLE x", "id = 1 OR 1=1", "nothing = 1", "id = __import__('os')", "id in (", ""):
        with pytest.raises(InvalidRequestError):
            preview_of(orders, 5, hostile)


def test_a_version_whose_files_a_vacuum_deleted_cannot_be_shown(orders):
    (Path(orders.root) / "day=2026-01-01" / "a.parquet").unlink()
    with pytest.raises(CorruptDataFileError, match=r"a\.parquet"):
        preview_of(orders, 0)


def test_values_are_texts_of_a_bounded_length(tmp_path):
    fields = [
        {"name": "Bytes", "type": "binary"},
        {"name": "items", "type": {"type": "array", "elementType": "long", "containsNull": True}},
        {
            "name": "pairs",
            "type": {"type": "map", "keyType": "string", "valueType": "binary", "valueContainsNull": True},
        },
        {"name": "at", "type": "timestamp"},
        {"name": "price", "type": "decimal(10,2)"},
        {"name": "text", "type": "string"},
        {"name": "renamed", "type": "long"},
    ]
    for number, field in enumerate(fields, start=1):
        field |= {"nullable": True, "metadata": {"delta.columnMapping.id": number}}
        field["metadata"]["delta.columnMapping.physicalName"] = field["name"].replace("renamed", "col-7")
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    store = LocalLogStore(str(tmp_path / "t"))
    mapped = metadata({"delta.columnMapping.mode": "name"}, schema)
    commit_actions(store, Protocol(min_reader_version=2, min_writer_version=5), mapped, read_version=-1)
    columns = {
        "Bytes": pa.array([b"\x00<b>"]),
        "items": pa.array([list(range(1_000))], pa.list_(pa.int64())),
        "pairs": pa.array([[("k", b"\xff")]], pa.map_(pa.string(), pa.binary())),
        "at": pa.array([1_000_000], pa.timestamp("us", tz="UTC")),
        "price": pa.array([None], pa.decimal128(10, 2)),
        "text": pa.array(["\u202e" + "x" * 5_000]),
        "col-7": pa.array([7], pa.int64()),
    }
    pq.write_table(pa.table(columns), tmp_path / "t" / "f.parquet")
    commit_actions(store, add("f.parquet", size_bytes=(tmp_path / "t" / "f.parquet").stat().st_size))
    [row] = preview_of(store, 1).rows
    assert row[0] == "003c623e"
    assert row[1].startswith("[0, 1, 2,") and len(row[1]) <= 301
    assert row[2] == '{"k": "ff"}'
    assert row[3].startswith("1970-01-01 00:00:01")
    assert row[4] is None
    assert row[5].startswith("\\u202exx") and len(row[5]) == 301
    assert row[6] == "7"
    assert preview_of(store, 1, "renamed = 7").rows == (row,)


def test_a_preview_ends_at_each_limit(tmp_path, monkeypatch):
    store = create(LocalLogStore(str(tmp_path / "t")), schema=SCHEMA, partition_columns=("day",))
    commit_actions(store, write_data_file(store, "a.parquet", list(range(150)), ["n" * 100] * 150))
    commit_actions(store, write_data_file(store, "b.parquet", list(range(150)), ["n" * 100] * 150))
    result = preview_of(store, 2)
    assert (len(result.rows), result.limit) == (100, Limit.ROWS)
    for condition, times, row_count in (("id = 149", [0.0, 0.0, 100.0], 1), ("id = 999", [0.0, 100.0, 100.0], 0)):
        clock = iter(times)
        result = preview_of(store, 2, condition, clock=lambda clock=clock: next(clock))
        assert (len(result.rows), result.limit) == (row_count, Limit.SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(preview, "MAX_READ_BYTES", 1)
        assert preview_of(store, 2, "id = 149").limit is Limit.BYTES
    monkeypatch.setattr(preview, "MAX_BYTES", 1_000)
    result = preview_of(store, 2)
    assert (len(result.rows), result.limit) == (9, Limit.BYTES)
    monkeypatch.setattr(preview, "MAX_COLUMNS", 1)
    result = preview_of(store, 2)
    assert (result.columns, result.column_count, result.rows[0]) == (("id",), 3, ("0",))
