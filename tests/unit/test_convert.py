"""Folders of Parquet files that become tables, without Spark: what they are then, and what is refused untouched."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltalite import DeltaTable
from deltalite.commands import convert as command
from deltalite.commands import converted_files as footers
from deltalite.commands.convert import convert
from deltalite.errors import (
    InvalidRequestError,
    InvalidTableAddressError,
    SchemaMismatchError,
    SourceError,
    UnsupportedFeatureError,
)
from deltalite.inspection.verify import verify
from deltalite.protocol.features import supported_features
from deltalite.requests import ConvertRequest, RunIdentity
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.tables import commit
from tests.unit.builders import newest

RUN = RunIdentity(app_id="airflow/d/convert/-1/r")


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "orders"


def put(folder, name, columns, **options):
    """A Parquet file; what is no Arrow array becomes one of 64-bit integers, floats or texts."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file, **options)
    return file


def converted(folder, **options):
    return convert(None, ConvertRequest(table=str(folder), **options))


def rows(folder, *columns):
    table = DeltaTable(str(folder)).to_arrow().select(list(columns))
    return in_order(table)


def in_order(table):
    found = [tuple(row.values()) for row in table.to_pylist()]
    return sorted(found, key=lambda row: [(value is not None, value) for value in row])


def by_delta_rs(folder, *columns):
    table = deltalake.DeltaTable(str(folder))
    names = ", ".join(f'"{column}"' for column in columns)
    found = pa.table(deltalake.QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t").read_all())
    return in_order(found)


def stats(folder):
    return {add["path"]: json.loads(add["stats"]) for add in commit(folder, 0)["add"]}


def assert_untouched(folder):
    assert not (folder / "_delta_log").exists()


def test_a_folder_becomes_a_table_in_one_commit_with_statistics(folder):
    put(folder, "a.parquet", {"id": [1, 2], "name": ["x", None]})
    put(folder, "sub folder/b%41.snappy", {"id": [3], "name": ["y"]})
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*.*")}
    result = converted(folder, identity=RUN, user_metadata="why")
    assert rows(folder, "id", "name") == by_delta_rs(folder, "id", "name") == [(1, "x"), (2, None), (3, "y")]
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert (result.operation, result.version, result.read_version, result.committed) == ("CONVERT", 0, None, True)
    assert result.metrics["numConvertedFiles"] == 2
    assert (result.metrics["numConvertedRows"], result.metrics["convertedFilesSize"]) == (
        3, sum(file.stat().st_size for file in before)
    )  # fmt: skip
    assert stats(folder)["a.parquet"] == {
        "numRecords": 2, "minValues": {"id": 1, "name": "x"}, "maxValues": {"id": 2, "name": "x"},
        "nullCount": {"id": 0, "name": 1},
    }  # fmt: skip
    assert "sub%20folder/b%2541.snappy" in stats(folder)
    (entry,) = DeltaTable(str(folder)).history()
    assert entry["operationParameters"] == {
        "numFiles": 2, "partitionedBy": "[]", "collectStats": True, "sourceFormat": "parquet"
    }  # fmt: skip
    assert verify(LocalLogStore(str(folder))).findings == ()


def test_a_second_run_does_nothing_but_record_itself_and_a_retry_not_even_that(folder):
    put(folder, "a.parquet", {"id": [1]})
    converted(folder, identity=RUN)
    put(folder, "late.parquet", {"id": [2]})
    again = converted(folder, identity=RUN)
    assert (again.skipped, again.version) == (True, 0)
    other = converted(folder, identity=RunIdentity(app_id="other"))
    assert (other.committed, other.version, other.metrics["numConvertedFiles"]) == (True, 1, 0)
    assert commit(folder, 1)["add"] == []
    nobody = converted(folder)
    assert (nobody.committed, nobody.version) == (False, 1)
    assert rows(folder, "id") == [(1,)]


def test_folders_give_partition_values_of_the_types_that_are_asked_for(folder):
    put(folder, "day=2026-01-01/n=7/a.parquet", {"id": [1]})
    put(folder, "day=2026-01-02/n=007/b.parquet", {"id": [2]})
    put(folder, "day=__HIVE_DEFAULT_PARTITION__/n=-1/c.parquet", {"id": [3]})
    put(folder, "Day=2026-01-03/n=/d.parquet", {"id": [4]})
    converted(folder, partition_schema="day DATE, `n` INT")
    expected = [(1, date(2026, 1, 1), 7), (2, date(2026, 1, 2), 7), (3, None, -1), (4, date(2026, 1, 3), None)]
    assert rows(folder, "id", "day", "n") == expected
    assert sorted(by_delta_rs(folder, "id", "day", "n")) == expected
    values = {add["path"]: add["partitionValues"] for add in commit(folder, 0)["add"]}
    assert values["day=2026-01-02/n=007/b.parquet"] == {"day": "2026-01-02", "n": "7"}, "one spelling for each value"
    assert DeltaTable(str(folder)).metadata.partition_columns == ("day", "n")
    assert verify(LocalLogStore(str(folder))).findings == ()


def test_values_of_folders_are_unescaped_once_and_the_log_escapes_the_folders_name(folder):
    put(folder, "p=a%2Fb%25 c/é.parquet", {"id": [1]})
    put(folder, "p=%C3%A9=1/f.parquet", {"id": [2]})
    put(folder, "_q=3/f.parquet", {"id": [3]})
    with pytest.raises(InvalidRequestError, match=r"partition_schema names \(p\), and the folders of _q=3"):
        converted(folder, partition_schema="p STRING")
    (folder / "_q=3" / "f.parquet").unlink()
    (folder / "_q=3").rmdir()
    converted(folder, partition_schema="p STRING")
    assert rows(folder, "id", "p") == by_delta_rs(folder, "id", "p") == [(1, "a/b% c"), (2, "é=1")]


@pytest.mark.parametrize(
    ("kind", "text", "value", "in_log"),
    [
        ("TIMESTAMP", "2026-01-01 10%3A00%3A00", datetime(2026, 1, 1, 10, tzinfo=UTC), "2026-01-01T10:00:00.000000Z"),
        ("TIMESTAMP_NTZ", "2026-01-01 10%3A00%3A00", datetime(2026, 1, 1, 10), "2026-01-01 10:00:00"),  # noqa: DTZ001
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50"), "1.50"),
        ("BOOLEAN", "TRUE", True, "true"),
        ("DOUBLE", "-1e3", -1000.0, "-1e3"),
        ("tinyint", "-128", -128, "-128"),
    ],
)
def test_every_type_that_can_partition_a_table_is_read_from_folders(folder, kind, text, value, in_log):
    put(folder, f"p={text}/a.parquet", {"id": [1]})
    converted(folder, partition_schema=f"p {kind}")
    assert rows(folder, "p") == by_delta_rs(folder, "p") == [(value,)]
    assert commit(folder, 0)["add"][0]["partitionValues"] == {"p": in_log}


def test_a_column_that_files_have_too_is_that_of_the_folders(folder):
    put(folder, "p=1/a.parquet", {"P": ["x"], "id": [1]})
    converted(folder, partition_schema="p INT")
    assert DeltaTable(str(folder)).schema.names == ["p", "id"]
    assert rows(folder, "p", "id") == [(1, 1)]
    assert stats(folder)["p=1/a.parquet"]["minValues"] == {"id": 1}


def test_files_that_were_written_over_time_become_one_schema(folder):
    put(folder, "1", {"id": pa.array([1], pa.int8()), "s": pa.array([{"a": 1}])})
    put(folder, "2", {"id": pa.array([300], pa.int16()), "s": pa.array([{"b": "x", "a": 2}]), "new": [1.5]})
    put(folder, "3", {"id": pa.array([100_000], pa.int32())})
    put(folder, "4", {"id": pa.array([4], pa.int8()), "new": pa.array([None], pa.float64())})
    converted(folder)
    assert (
        str(Snapshot.load(LocalLogStore(str(folder))).schema) == "struct<id:int,s:struct<a:bigint,b:string>,new:double>"
    )
    assert rows(folder, "id", "new") == [(1, None), (4, None), (300, 1.5), (100_000, None)]
    assert by_delta_rs(folder, "id") == [(1,), (4,), (300,), (100_000,)]
    assert stats(folder)["2"]["minValues"]["s"] == {"a": 2, "b": "x"}
    assert verify(LocalLogStore(str(folder))).findings == ()


@pytest.mark.parametrize(
    ("one", "other", "column"),
    [
        (pa.array([1]), pa.array(["x"]), "c"),
        (pa.array([1], pa.int32()), pa.array([1], pa.int64()), "c"),
        (pa.array([1.0], pa.float32()), pa.array([1.0]), "c"),
        (pa.array([{"m": 1}]), pa.array([{"m": "x"}]), "c.m"),
        (pa.array([[1]]), pa.array([["x"]]), "c.element"),
        (pa.array([Decimal("1.0")]), pa.array([Decimal("1.00")]), "c"),
    ],
)
def test_files_that_contradict_each_other_are_named_with_the_column(folder, one, other, column):
    put(folder, "a.parquet", {"c": one})
    put(folder, "b.parquet", {"c": other})
    with pytest.raises(SchemaMismatchError, match=rf"'{column}' is .* in b.parquet, and .* in a.parquet"):
        converted(folder)
    assert_untouched(folder)


def test_names_that_differ_in_their_case_are_a_contradiction(folder):
    put(folder, "a.parquet", {"Id": [1]})
    put(folder, "b.parquet", {"id": [1]})
    with pytest.raises(SchemaMismatchError, match=r"'Id' is called 'id' in b.parquet, and 'Id' in a.parquet"):
        converted(folder)


def test_nested_columns_int96_and_times_without_a_zone_are_read_as_what_they_are(folder):
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
    put(folder, "a.parquet", {"t": pa.array([noon]), **nested}, use_deprecated_int96_timestamps=True)
    put(folder, "b.parquet", {"n": pa.array([local])}, coerce_timestamps="us")
    converted(folder)
    schema = Snapshot.load(LocalLogStore(str(folder))).schema
    kinds = {f.name: str(f.type) for f in schema}
    assert kinds == {
        "t": "timestamp", "l": "array<bigint>", "m": "map<string,bigint>",
        "deep": "array<struct<at:timestamp,x:array<struct<y:bigint>>>>", "dec": "decimal(3,2)", "raw": "binary",
        "day": "date", "dict": "string", "n": "timestamp_ntz",
    }  # fmt: skip
    assert all(f.nullable for f in schema)
    assert "timestampNtz" in supported_features(Snapshot.load(LocalLogStore(str(folder))).protocol)
    found = DeltaTable(str(folder)).to_arrow().sort_by("t").to_pylist()
    assert (found[0]["t"], found[0]["deep"], found[1]["n"]) == (noon, [{"at": noon, "x": [{"y": 1}]}], local)
    assert by_delta_rs(folder, "day", "dec", "t", "n") == rows(folder, "day", "dec", "t", "n")
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
def test_a_column_that_no_table_can_have_is_refused_with_its_file(folder, column, problem):
    put(folder, "a.parquet", {"c": column})
    with pytest.raises(SchemaMismatchError, match=rf"The file a.parquet: .*{problem}"):
        converted(folder)
    assert_untouched(folder)


def test_times_in_nanoseconds_are_not_taken_for_int96_of_an_earlier_file(folder):
    at = pa.array([datetime(2026, 1, 1)], pa.timestamp("ns"))  # noqa: DTZ001
    put(folder, "a.parquet", {"c": at}, use_deprecated_int96_timestamps=True, store_schema=False)
    put(folder, "b.parquet", {"c": at}, store_schema=False)
    with pytest.raises(SchemaMismatchError, match=r"The file b.parquet: .*nanoseconds"):
        converted(folder)


def test_two_columns_that_differ_in_case_are_refused(folder):
    put(folder, "a.parquet", {"c": [1], "C": [2]})
    with pytest.raises(SchemaMismatchError, match="Two columns are called 'C'"):
        converted(folder)


@pytest.mark.parametrize("name", ["a b", "a,b", "x=y"])
def test_names_with_odd_characters_need_column_mapping_and_keep_their_names_in_files(folder, name):
    put(folder, "p=1/a.parquet", {name: [1], "s": pa.array([{name: 2}])})
    with pytest.raises(SchemaMismatchError, match=r"has a character in its name") as caught:
        converted(folder, partition_schema="p INT")
    assert "{'delta.columnMapping.mode': 'name'}" in caught.value.remedy
    assert_untouched(folder)
    converted(folder, partition_schema="p INT", properties={"delta.columnMapping.mode": "name"})
    assert rows(folder, name, "s", "p") == by_delta_rs(folder, name, "s", "p") == [(1, {name: 2}, 1)]
    assert stats(folder)["p=1/a.parquet"]["minValues"] == {name: 1, "s": {name: 2}}
    assert verify(LocalLogStore(str(folder))).findings == ()


def test_hidden_names_empty_files_and_files_without_rows_stay_outside(folder):
    put(folder, "a.parquet", {"id": [1]})
    put(folder, "no rows.parquet", {"id": pa.array([], pa.int64()), "more": pa.array([], pa.string())})
    for name in ("_SUCCESS", ".a.parquet.crc", "_temporary/0/part.parquet", "_old/b.parquet", ".x/c.parquet"):
        put(folder, name, {"hidden": [1]})
    (folder / "b.parquet").touch()
    (folder / "c._COPYING_").write_bytes(b"x")
    result = converted(folder)
    assert result.metrics["numConvertedFiles"] == 1
    assert [add["path"] for add in commit(folder, 0)["add"]] == ["a.parquet"]
    assert DeltaTable(str(folder)).schema.names == ["id", "more"]


def empty(folder):
    folder.mkdir()


def only_hidden(folder):
    put(folder, "_a/b.parquet", {"id": [1]})


def a_file(folder):
    folder.write_bytes(b"x")


def another_format(folder):
    put(folder, "a.parquet", {"id": [1]})
    (folder / "notes.csv").write_text("1,2")


def cut(folder):
    file = put(folder, "a.parquet", {"id": [1]})
    file.write_bytes(file.read_bytes()[:-5])


def table_inside(folder):
    put(folder, "sub/_delta_log/x", {"id": [1]})


def streamed(folder):
    put(folder, "a.parquet", {"id": [1]})
    (folder / "_spark_metadata").mkdir()


def iceberg(folder):
    put(folder, "data/a.parquet", {"id": [1]})
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").write_text("{}")


def link(folder):
    file = put(folder, "a.parquet", {"id": [1]})
    (folder / "b.parquet").symlink_to(file)


def link_of_a_folder(folder):
    put(folder, "a/a.parquet", {"id": [1]})
    (folder / "b").symlink_to(folder / "a")


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (None, "holds no Parquet files"),
        (empty, "holds no Parquet files"),
        (only_hidden, "holds no Parquet files"),
        (a_file, "holds no Parquet files"),
        (another_format, "'notes.csv'.* cannot be read as Parquet"),
        (cut, "'a.parquet'.* cannot be read as Parquet"),
        (table_inside, "sub is a Delta table of its own"),
        (streamed, "a stream of Spark's"),
        (iceberg, "an Iceberg table"),
        (link, "neither a file nor a folder, such as a link"),
        (link_of_a_folder, "neither a file nor a folder, such as a link"),
    ],
)
def test_a_folder_that_holds_something_else_is_refused_untouched(folder, made, problem):
    if made is not None:
        made(folder)
    with pytest.raises(SourceError, match=problem):
        converted(folder)
    assert_untouched(folder)


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        (["day=1/a"], {}, r"partition_schema is not given.*partition_schema='day STRING'"),
        (["day=1/a", "b"], {"partition_schema": "day INT"}, r"the folders of b spell \(\)"),
        (["day=1/x/a"], {"partition_schema": "day INT"}, r"spell \(day, no column\)"),
        (["a=1/b=2/f"], {"partition_schema": "b INT, a INT"}, r"spell \(a, b\)"),
        (["day=x/a"], {"partition_schema": "day INT"}, "says 'x', which is no int"),
        (["day=300/a"], {"partition_schema": "day TINYINT"}, "says '300', which is no tinyint"),
        (["day=2026-13-01/a"], {"partition_schema": "day DATE"}, "which is no date"),
        (["day=%FF/a"], {"partition_schema": "day STRING"}, "escape that is no text"),
        (["day=1/a"], {"partition_schema": "day"}, "partition_schema is 'day'"),
        (["day=1/a"], {"partition_schema": "day INT, Day DATE"}, "names 'Day' twice"),
        (["day=1/a"], {"partition_schema": "day ARRAY<INT>"}, "partition_schema is"),
        (["day=1/a"], {"partition_schema": "day BINARY"}, "'BINARY', which cannot partition"),
        (["day=1/a"], {"partition_schema": "day DECIMAL(5, 6)"}, "cannot partition"),
        (["day=1/a"], {"partition_schema": "day INT NOT NULL"}, "partition_schema is"),
        (["id=1/a"], {"partition_schema": "id INT"}, "names every column"),
        (["a"], {"properties": {"delta.nonsense": "1"}}, "no table property delta.nonsense"),
        (["a"], {"properties": {"delta.appendOnly": "maybe"}}, "appendOnly"),
        (["a"], {"properties": {"delta.columnMapping.mode": "id"}}, "can only change from 'none' to 'name'"),
        (["a"], {"properties": {"delta.dataSkippingStatsColumns": "missing"}}, "names the column 'missing'"),
        (["a"], {"table": "t@v3"}, "names a version"),
    ],
)
def test_what_cannot_be_meant_is_refused_untouched(folder, names, options, problem):
    for name in names:
        put(folder, name, {"id": [1]})
    with pytest.raises(InvalidRequestError, match=problem):
        convert(None, ConvertRequest(**{"table": str(folder), **options}))
    assert_untouched(folder)


def test_features_that_this_release_does_not_write_are_refused_by_name(folder):
    put(folder, "a", {"id": [1]})
    with pytest.raises(UnsupportedFeatureError, match="rowTracking"):
        converted(folder, properties={"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidTableAddressError):
        converted("{{ folder }}")
    with pytest.raises(InvalidRequestError, match="a rule for rows"):
        converted(folder, properties={"delta.constraints.positive": "id > 0"})


def test_properties_are_those_of_the_new_table(folder):
    put(folder, "1", {"a": [1], "b": [2]})
    put(folder, "2", {"a": [1], "b": [2], "with.dot": [3]})
    asked = {"mine": "1", "delta.enableChangeDataFeed": "true", "delta.dataSkippingStatsColumns": "b, `with.dot`"}
    converted(folder, properties=asked)
    table = DeltaTable(str(folder))
    assert dict(table.metadata.configuration) == asked
    assert stats(folder)["1"]["minValues"] == {"b": 2}
    assert stats(folder)["2"]["minValues"] == {"b": 2, "with.dot": 3}
    assert sum(batch.num_rows for batch in table.changes(from_version=0)) == 2


def test_bounds_that_the_writer_may_have_meant_in_another_way_are_left_out(folder):
    put(folder, "nan", {"x": [1.0, float("nan")], "n": [1, 2]})
    julian = pa.schema([("d", pa.date32()), ("n", pa.int64())], {"org.apache.spark.version": "2.4.0"})
    pq.write_table(pa.table({"d": [date(1500, 1, 1)], "n": [1]}, schema=julian), folder / "old")
    converted(folder)
    assert stats(folder)["nan"]["maxValues"] == {"n": 2}, "Arrow leaves NaN out of a maximum"
    assert stats(folder)["old"]["maxValues"] == {"n": 1}


def test_a_file_that_changes_while_it_is_converted_stops_it(folder, monkeypatch):
    file = put(folder, "a.parquet", {"id": [1]})
    listed = command.listed_files
    changes = {
        "grown": lambda: put(folder, "a.parquet", {"id": list(range(100))}),
        "new": lambda: put(folder, "b.parquet", {"id": [2]}),
        "gone": (folder / "b.parquet").unlink,
        "touched": lambda: os.utime(file, (1, 1)),
    }
    for change in changes.values():
        read = footers.read_sized_footers

        def reading(*arguments, change=change, read=read):
            found = read(*arguments)
            change()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(footers, "read_sized_footers", reading)
            with pytest.raises(SourceError, match="changed while it was converted, such as"):
                converted(folder)
    put(folder, "a.parquet", {"id": [1]})
    with monkeypatch.context() as patch:
        patch.setattr(command, "listed_files", lambda tree: (listed(tree), changes["grown"]())[0])
        with pytest.raises(SourceError, match=r"a.parquet of .* had \d+ bytes, and has"):
            converted(folder)
    assert_untouched(folder)


def test_another_writer_that_makes_the_table_first_is_left_alone(folder, monkeypatch):
    put(folder, "a.parquet", {"id": [1]})
    check = command.check_unchanged

    def raced(*arguments):
        monkeypatch.setattr(command, "check_unchanged", check)
        converted(folder, identity=RunIdentity(app_id="rival"))
        check(*arguments)

    monkeypatch.setattr(command, "check_unchanged", raced)
    result = converted(folder, identity=RUN)
    assert (result.version, result.metrics["numConvertedFiles"]) == (1, 0)
    assert rows(folder, "id") == [(1,)]


VALUES = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(),
    "s": st.text(max_size=40),
    "d": st.dates(date(1, 1, 1)),
    "b": st.booleans(),
    "t": st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)).map(lambda t: t.replace(tzinfo=ZoneInfo("UTC"), fold=0)),  # noqa: DTZ001
}
TYPES = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.date32(), "b": pa.bool_(),
         "t": pa.timestamp("us", "UTC")}  # fmt: skip
FILE = st.fixed_dictionaries(
    {}, optional={name: st.lists(st.none() | v, min_size=3, max_size=3) for name, v in VALUES.items()}
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.lists(FILE.filter(bool), min_size=1, max_size=4), int96=st.booleans())
def test_any_rows_are_read_from_the_table_as_from_its_files(tmp_path_factory, files, int96):
    folder = tmp_path_factory.mktemp("c") / "t"
    expected = []
    int96 = int96 and all(t is None or 1700 < t.year < 2200 for file in files for t in file.get("t", ()))
    for number, file in enumerate(files):
        columns = {name: pa.array(column, TYPES[name]) for name, column in file.items()}
        put(folder, f"{number}", columns, use_deprecated_int96_timestamps=int96)
        expected += [{name: column[at] for name, column in file.items()} for at in range(3)]
    converted(folder)
    found = DeltaTable(str(folder)).to_arrow().to_pylist()
    names = DeltaTable(str(folder)).schema.names
    assert sorted(map(repr, found)) == sorted(repr({name: row.get(name) for name in names}) for row in expected)
    assert verify(LocalLogStore(str(folder))).findings == ()
    assert newest(LocalLogStore(str(folder))) == 0
