"""The schemas of many files become one schema. The error for a contradiction names the column and both files."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.errors import (
    SchemaMismatchError,
)
from deltalite.inspection.verify import verify
from deltalite.protocol.features import supported_features
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.unit.commands.convert.converting import (
    assert_untouched,
    convert_folder,
    rows,
    rows_by_delta_rs,
    stats_by_path,
    write_parquet,
)


def test_schemas_of_older_and_newer_files_become_one_schema(folder):
    write_parquet(folder, "1", {"id": pa.array([1], pa.int8()), "s": pa.array([{"a": 1}])})
    write_parquet(folder, "2", {"id": pa.array([300], pa.int16()), "s": pa.array([{"b": "x", "a": 2}]), "new": [1.5]})
    write_parquet(folder, "3", {"id": pa.array([100_000], pa.int32())})
    write_parquet(folder, "4", {"id": pa.array([4], pa.int8()), "new": pa.array([None], pa.float64())})
    convert_folder(folder)
    assert (
        str(Snapshot.load(LocalLogStore(str(folder))).schema) == "struct<id:int,s:struct<a:bigint,b:string>,new:double>"
    )
    assert rows(folder, "id", "new") == [(1, None), (4, None), (300, 1.5), (100_000, None)]
    assert rows_by_delta_rs(folder, "id") == [(1,), (4,), (300,), (100_000,)]
    assert stats_by_path(folder)["2"]["minValues"]["s"] == {"a": 2, "b": "x"}
    assert verify(LocalLogStore(str(folder))).findings == ()


@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        (pa.array([1]), pa.array(["x"]), "c"),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64()), "c"),
        (pa.array([1.0], pa.float32()), pa.array([1.0]), "c"),
        (pa.array([{"m": 1}]), pa.array([{"m": "x"}]), "c.m"),
        (pa.array([[1]]), pa.array([["x"]]), "c.element"),
        (pa.array([Decimal("1.0")]), pa.array([Decimal("1.00")]), "c"),
    ],
)
def test_the_error_names_the_column_and_both_contradicting_files(folder, first, second, column):
    write_parquet(folder, "a.parquet", {"c": first})
    write_parquet(folder, "b.parquet", {"c": second})
    with pytest.raises(SchemaMismatchError, match=rf"'{column}' is .* in b.parquet, and .* in a.parquet"):
        convert_folder(folder)
    assert_untouched(folder)


def test_column_names_that_differ_only_in_case_are_a_contradiction(folder):
    write_parquet(folder, "a.parquet", {"Id": [1]})
    write_parquet(folder, "b.parquet", {"id": [1]})
    with pytest.raises(SchemaMismatchError, match=r"'Id' is called 'id' in b.parquet, and 'Id' in a.parquet"):
        convert_folder(folder)


def test_nested_columns_int96_and_times_without_a_zone_keep_their_values(folder):
    noon, local = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12)  # noqa: DTZ001
    nested = {
        "l": pa.array([[1, None]]),
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[{"at": noon, "x": [{"y": 1}]}]]),
        "dec": pa.array([Decimal("1.50")]),
        "raw": pa.array([b"x"]),
        "day": pa.array([date(2026, 1, 1)]),
        "dict": pa.array(["x"]).dictionary_encode(),
    }
    write_parquet(folder, "a.parquet", {"t": pa.array([noon]), **nested}, use_deprecated_int96_timestamps=True)
    write_parquet(folder, "b.parquet", {"n": pa.array([local])}, coerce_timestamps="us")
    convert_folder(folder)
    schema = Snapshot.load(LocalLogStore(str(folder))).schema
    kinds = {f.name: str(f.type) for f in schema}
    assert kinds == {
        "t": "timestamp", "l": "array<bigint>", "m": "map<string,bigint>",
        "deep": "array<struct<at:timestamp,x:array<struct<y:bigint>>>>", "dec": "decimal(3,2)", "raw": "binary",
        "day": "date", "dict": "string", "n": "timestamp_ntz",
    }  # fmt: skip
    assert all(f.nullable for f in schema)
    assert "timestampNtz" in supported_features(Snapshot.load(LocalLogStore(str(folder))).protocol)
    rows_read = DeltaTable(str(folder)).to_arrow().sort_by("t").to_pylist()
    assert (rows_read[0]["t"], rows_read[0]["deep"], rows_read[1]["n"]) == (
        noon,
        [{"at": noon, "x": [{"y": 1}]}],
        local,
    )
    assert rows_by_delta_rs(folder, "day", "dec", "t", "n") == rows(folder, "day", "dec", "t", "n")
    assert verify(LocalLogStore(str(folder))).findings == ()


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pa.array([1], pa.uint32()), "uint32"),
        (pa.array([{"x": [1]}], pa.struct([("x", pa.list_(pa.uint8()))])), r"'c.x.element' .*uint8"),
        (pa.array([1], pa.timestamp("ns")), "nanoseconds"),
        (pa.array([1], pa.time64("us")), "time64"),
        (pa.array([None], pa.null()), "null"),
        (pa.array([Decimal(1)], pa.decimal256(40, 0)), "decimal256"),
    ],
)
def test_the_error_names_the_file_of_an_unsupported_column(folder, column, problem):
    write_parquet(folder, "a.parquet", {"c": column})
    with pytest.raises(SchemaMismatchError, match=rf"The file a.parquet: .*{problem}"):
        convert_folder(folder)
    assert_untouched(folder)


def test_times_in_nanoseconds_are_not_mistaken_for_int96_of_an_earlier_file(folder):
    times = pa.array([datetime(2026, 1, 1)], pa.timestamp("ns"))  # noqa: DTZ001
    write_parquet(folder, "a.parquet", {"c": times}, use_deprecated_int96_timestamps=True, store_schema=False)
    write_parquet(folder, "b.parquet", {"c": times}, store_schema=False)
    with pytest.raises(SchemaMismatchError, match=r"The file b.parquet: .*nanoseconds"):
        convert_folder(folder)


def test_two_columns_of_a_file_that_differ_only_in_case_are_rejected(folder):
    write_parquet(folder, "a.parquet", {"c": [1], "C": [2]})
    with pytest.raises(SchemaMismatchError, match="Two columns are called 'C'"):
        convert_folder(folder)


@pytest.mark.parametrize("name", ["a b", "a,b", "x=y"])
def test_names_with_special_characters_need_column_mapping_and_stay_as_physical_names(folder, name):
    write_parquet(folder, "p=1/a.parquet", {name: [1], "s": pa.array([{name: 2}])})
    with pytest.raises(SchemaMismatchError, match=r"has a character in its name") as caught:
        convert_folder(folder, partition_schema="p INT")
    assert "{'delta.columnMapping.mode': 'name'}" in caught.value.remedy
    assert_untouched(folder)
    convert_folder(folder, partition_schema="p INT", properties={"delta.columnMapping.mode": "name"})
    assert rows(folder, name, "s", "p") == rows_by_delta_rs(folder, name, "s", "p") == [(1, {name: 2}, 1)]
    assert stats_by_path(folder)["p=1/a.parquet"]["minValues"] == {name: 1, "s": {name: 2}}
    assert verify(LocalLogStore(str(folder))).findings == ()
