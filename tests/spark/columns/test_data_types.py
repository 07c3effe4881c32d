"""Extreme values of every type: this library, delta-rs and Spark read them, and the statistics never exclude them."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRsTable

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.columnar.skipping.file_facts import facts_from_stats, parse_stats
from deltalite.protocol.schema import parse_schema
from deltalite.requests import Source
from tests.support.selection import sampled
from tests.support.tables import actions_of, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

UTC = dt.UTC
MOMENTS = [
    dt.datetime(1, 1, 1, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(2026, 3, 8, 2, 30, 0, 123456, tzinfo=UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
# The Arrow type and the values of each column.
COLUMNS = {
    "tiny": (pa.int8(), [-128, 0, 127, None]),
    "small": (pa.int16(), [-(2**15), 0, 2**15 - 1, None]),
    "normal": (pa.int32(), [-(2**31), 0, 2**31 - 1, None]),
    "big": (pa.int64(), [-(2**63), 0, 2**63 - 1, None]),
    "single": (pa.float32(), [-3.4028234663852886e38, 1.401298464324817e-45, 0.10000000149011612, None]),
    "double": (pa.float64(), [-1.7976931348623157e308, 5e-324, 0.1, None]),
    "special": (pa.float64(), [-math.inf, math.inf, math.nan, None]),
    "narrow": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.01"), Decimal("9999999.99"), None]),
    "wide": (
        pa.decimal128(38, 18),
        [
            Decimal("-99999999999999999999.999999999999999999"),
            Decimal("0E-18"),
            Decimal("99999999999999999999.999999999999999999"),
            None,
        ],
    ),
    "text": (pa.string(), ["", "a" * 40, "Łódź 🚲🚲", None]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", b"abc", None]),
    "flag": (pa.bool_(), [False, True, False, None]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]),
    "at": (pa.timestamp("us", "UTC"), [MOMENTS[0], MOMENTS[1], MOMENTS[3], None]),
    "local": (pa.timestamp("us"), [m.replace(tzinfo=None) for m in (MOMENTS[0], MOMENTS[2], MOMENTS[3])] + [None]),
    "list": (pa.list_(pa.int32()), [[], [1, None], [2**31 - 1], None]),
    "map": (pa.map_(pa.string(), pa.decimal128(5, 1)), [[], [("", None)], [("k", Decimal("1.5")), ("l", None)], None]),
    "struct": (
        pa.struct([("a", pa.int64()), ("deep", pa.struct([("b c", pa.string())]))]),
        [{"a": 1, "deep": None}, {"a": None, "deep": {"b c": "x"}}, {"a": -1, "deep": {"b c": None}}, None],
    ),
    "list_of": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.date32())))])),
        [[], [{"m": [("k", [dt.date(2026, 1, 1), None])]}], [None, {"m": None}], None],
    ),
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*(v for _, v in COLUMNS.values()), strict=True)]


def comparable(value):
    """A form of a value that is equal for all readers, which differ in NaN, maps, structs and bytes."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        return {"fields": sorted((k, comparable(v)) for k, v in value.items())} if value else []
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list):
        return [comparable(v) for v in value]
    if isinstance(value, tuple):
        return tuple(comparable(v) for v in value)
    return value


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    schema = pa.schema([(name, data_type) for name, (data_type, _) in COLUMNS.items()])
    pq.write_table(pa.Table.from_pylist(ROWS, schema=schema), folder / "source.parquet")
    write_rows(spark, folder / "t", sources={"source": Source(format="parquet", path=str(folder / "source.parquet"))})
    return folder / "t"


def test_every_reader_sees_the_same_rows(spark, table, tmp_path):
    expected = [comparable(row) for row in ROWS]
    assert [comparable(row) for row in DeltaTable(str(table)).to_arrow().to_pylist()] == expected
    assert [comparable(row) for row in DeltaRsTable(str(table)).to_pyarrow_table().to_pylist()] == expected
    # PySpark converts times to the local time zone. In most zones, some local times lie outside Python's calendar.
    expressions = {"at": "unix_micros(at)", "local": "CAST(local AS STRING)", "map": "map_entries(map)"}
    names = [name for name in COLUMNS if name != "list_of"]
    selection = [f"{expressions.get(name, name)} AS {name}" for name in names]
    spark_rows = delta.read(spark, str(table)).selectExpr(*selection).collect()
    for spark_row, row in zip(spark_rows, ROWS, strict=True):
        spark_values = spark_row.asDict(recursive=True)
        epoch = dt.datetime(1970, 1, 1, tzinfo=UTC)
        microseconds = None if row["at"] is None else (row["at"] - epoch) // dt.timedelta(microseconds=1)
        assert spark_values.pop("at") == microseconds
        local = row["local"]
        local_text = (
            None if local is None else f"{local:%Y}".zfill(4) + f"{local:-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".")
        )
        assert spark_values.pop("local") == local_text
        map_entries = spark_values.pop("map")
        pairs = None if map_entries is None else [(entry["key"], entry["value"]) for entry in map_entries]
        assert pairs == row["map"]
        assert comparable(spark_values) == comparable({name: row[name] for name in spark_values})


def test_a_copy_through_spark_has_the_same_schema_and_rows(spark, table, tmp_path):
    write_rows(spark, tmp_path / "copy", sources={"source": Source(format="delta", path=str(table))})
    assert DeltaTable(str(tmp_path / "copy")).schema == DeltaTable(str(table)).schema
    copied_rows = DeltaTable(str(tmp_path / "copy")).to_arrow().to_pylist()
    assert [comparable(row) for row in copied_rows] == [comparable(row) for row in ROWS]


def test_a_table_with_every_type_has_the_protocol_and_schema_that_it_needs(table):
    actions = actions_of(table, 0)
    assert actions["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timestampNtz"],
        "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
    }
    types = {f["name"]: f["type"] for f in json.loads(actions["metaData"]["schemaString"])["fields"]}
    primitive_types = {name: data_type for name, data_type in types.items() if isinstance(data_type, str)}
    assert primitive_types == {
        "tiny": "byte",
        "small": "short",
        "normal": "integer",
        "big": "long",
        "single": "float",
        "double": "double",
        "special": "double",
        "narrow": "decimal(9,2)",
        "wide": "decimal(38,18)",
        "text": "string",
        "bytes": "binary",
        "flag": "boolean",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
    }
    assert DeltaTable(str(table)).schema.types == [data_type for data_type, _ in COLUMNS.values()]
    (add,) = actions["add"]
    file_schema = pq.read_schema(table / add["path"])
    assert file_schema.field("at").type == pa.timestamp("us", "UTC")
    assert file_schema.field("local").type == pa.timestamp("us")


def test_the_statistics_have_the_row_count_the_null_counts_and_the_bounds(table):
    (add,) = actions_of(table, 0)["add"]
    stats = json.loads(add["stats"], parse_float=Decimal)
    assert stats["numRecords"] == 4
    low, high, nulls = stats["minValues"], stats["maxValues"], stats["nullCount"]
    exact_columns = ("tiny", "small", "normal", "big", "narrow", "wide")
    for name in exact_columns:
        not_null = [value for value in COLUMNS[name][1] if value is not None]
        assert (Decimal(low[name]), Decimal(high[name])) == (Decimal(min(not_null)), Decimal(max(not_null)))
    assert (float(low["double"]), float(high["double"])) == (-1.7976931348623157e308, 0.1)
    assert "special" not in low and "special" not in high
    assert (low["text"], high["text"]) == ("", "Łódź 🚲🚲")
    assert (low["day"], high["day"]) == ("0001-01-01", "9999-12-31")
    assert (low["at"], high["at"]) == ("0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")
    assert (low["local"], high["local"]) == ("0001-01-01T00:00:00.000", "9999-12-31T23:59:59.999")
    assert {low["struct"]["a"], high["struct"]["a"]} == {-1, 1}
    assert not {"bytes", "flag", "list", "map", "list_of"} & (set(low) | set(high))
    for name in (*exact_columns, "special", "text", "bytes", "flag", "day", "at", "local"):
        assert nulls[name] == 1, name
    assert nulls["struct"] == {"a": 2, "deep": {"b c": 3}}


def test_statistics_never_exclude_a_stored_value(table):
    (add,) = actions_of(table, 0)["add"]
    stats = parse_stats(add["stats"])
    schema = parse_schema(actions_of(table, 0)["metaData"]["schemaString"])
    for field in schema:
        if field.name not in ("list", "map", "struct", "list_of", "bytes", "special"):
            facts = facts_from_stats(stats, (field.name,), field.type)
            for value in COLUMNS[field.name][1]:
                if value is not None:
                    assert facts.low is None or facts.low <= value, field.name
                    assert facts.high is None or facts.high_may_be_cut or facts.high >= value, field.name


@pytest.mark.parametrize(
    "name",
    sampled(
        ["tiny", "big", "double", "special", "narrow", "wide", "text", "flag", "day", "at", "local"],
        {"special", "at"},
    ),
)
def test_a_table_can_be_partitioned_by_every_simple_type(spark, table, tmp_path, name):
    target = tmp_path / "p"
    source = {"source": Source(format="delta", path=str(table))}
    write_rows(spark, target, f"SELECT normal, {name} FROM source", sources=source, partition_by=(name,))
    # An empty text becomes null in a partition value.
    expected = {row["normal"]: comparable(row[name]) or (None if name == "text" else row[name]) for row in ROWS}
    values_read = {row["normal"]: comparable(row[name]) for row in DeltaTable(str(target)).to_arrow().to_pylist()}
    assert values_read == {number: comparable(value) for number, value in expected.items()}
    # delta-rs reads negative decimals of partition values incorrectly: it puts a minus sign into the fraction.
    if name not in ("narrow", "wide"):
        delta_rs_rows = DeltaRsTable(str(target)).to_pyarrow_table().to_pylist()
        assert {row["normal"]: comparable(row[name]) for row in delta_rs_rows} == values_read
    text = f"CAST({name} AS STRING)"
    source_texts = {r[0]: r[1] or None for r in delta.read(spark, str(table)).selectExpr("normal", text).collect()}
    assert dict(delta.read(spark, str(target)).selectExpr("normal", text).collect()) == source_texts
    # The overwrite replaces only the partition of the selected row.
    write_rows(
        spark,
        target,
        f"SELECT -1 AS normal, {name} FROM source WHERE normal = 0",
        sources=source,
        mode="overwrite",
        partition_overwrite="dynamic",
    )
    replaced_value = comparable(expected[0])
    remaining_numbers = [row["normal"] for row in ROWS if comparable(expected[row["normal"]]) != replaced_value]
    numbers = sorted((row["normal"] for row in DeltaTable(str(target)).to_arrow().to_pylist()), key=str)
    assert numbers == sorted([*remaining_numbers, -1], key=str)


def test_only_the_first_32_columns_have_bounds_and_null_counts(spark, tmp_path):
    names = [f"c{n}" for n in range(40)]
    write_rows(spark, tmp_path / "t", values(", ".join(names), ", ".join(["1"] * 40)))
    stats = json.loads(actions_of(tmp_path / "t", 0)["add"][0]["stats"])
    assert list(stats["minValues"]) == names[:32] and list(stats["nullCount"]) == names[:32]
