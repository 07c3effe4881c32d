"""Damaged schemas, values, statistics, deletion vectors and data files give the right rows or a typed error."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import event, example, given, note
from hypothesis import strategies as st

from deltalite import table as table_module
from deltalite.columnar.deletion_vectors import roaring
from deltalite.columnar.skipping.file_facts import facts_from_stats, parse_stats
from deltalite.errors import DeltaLiteError
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.partition_values import parse_partition_value, partition_scalar
from deltalite.protocol.schema import (
    MAX_PRECISION,
    PRIMITIVES,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    leaves,
    parse_schema,
    schema_to_json,
)
from deltalite.table import DeltaTable
from tests.support.fuzzing import examples, seed_files, store_of, value_or_library_error
from tests.support.golden import CHECKOUT, GOLDEN, MANIFEST, rows_of
from tests.support.mutations import HOSTILE, mutate_bytes, mutate_files, mutate_value
from tests.support.raw_json import Raw, to_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MANIFEST.is_file(), reason="the golden tables are missing"),
]
randoms = st.randoms(use_true_random=False)
# Tables with statistics, many types, partitions, column mapping and deletion vectors.
TABLES = (
    "dat/multi_partitioned",
    "derived/table-with-dv-small",
    "derived/partitioned-table-with-dv-large",
    "derived/dv-inline",
    "delta-golden/data-reader-timestamp_ntz-id-mode",
    "delta-golden/data-reader-nested-struct",
    "delta-kernel-rs/app-txn-no-checkpoint",
    "delta-kernel-java/data-reader-primitives-column-mapping-name",
    "delta-rs/cdf-table",
)
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "long", "nullable": True, "metadata": {"delta.columnMapping.id": 1}},
        {"name": "b", "type": {"type": "array", "elementType": "decimal(10,2)", "containsNull": True}, "nullable": True,
         "metadata": {}},
        {"name": "c", "type": {"type": "map", "keyType": "string", "valueType": {"type": "struct", "fields": [
            {"name": "d", "type": "timestamp_ntz", "nullable": False, "metadata": {}}]}, "valueContainsNull": False},
         "nullable": True, "metadata": {}},
        {"name": "e", "type": "date", "nullable": True, "metadata": {}},
    ],
}  # fmt: skip
STATS = {
    "numRecords": 3, "tightBounds": True, "minValues": {"a": 1, "c": {"d": "2020-01-01T00:00:00"}, "e": "2020-01-01"},
    "maxValues": {"a": 9, "e": "2020-02-01"}, "nullCount": {"a": 0, "b": 0, "e": 1},
}  # fmt: skip
LEAVES = tuple(leaves(parse_schema(json.dumps(SCHEMA))))
TYPES = (
    *(PrimitiveType(name) for name in sorted(PRIMITIVES)),
    DecimalType(MAX_PRECISION, 10),
    ArrayType(PrimitiveType("long")),
)


def open_table(store):
    with patch.object(table_module, "open_store", lambda _address, **_options: store):
        return DeltaTable("/t")


@cache
def expected_rows(name):
    return rows_of(open_table(store_of(name)).to_arrow())


def nested_schema(levels, wrap):
    data_type = "long"
    for _ in range(levels):
        data_type = wrap(data_type)
    return json.dumps(in_struct(data_type))


def in_array(data_type):
    return {"type": "array", "elementType": data_type, "containsNull": True}


def in_struct(data_type):
    return {"type": "struct", "fields": [{"name": "a", "type": data_type, "nullable": True, "metadata": {}}]}


def test_a_decimal_of_thousands_of_digits_is_an_error_of_the_library():
    assert isinstance(value_or_library_error(lambda: parse_schema('"decimal(' + "9" * 5000 + ',1)"')), DeltaLiteError)


@pytest.mark.parametrize("wrap", [in_array, in_struct])
@pytest.mark.parametrize("levels", [50, 98, 99, 100, 200, 235, 300])
def test_a_schema_of_any_depth_is_read_or_rejected(wrap, levels):
    def convert():
        schema = parse_schema(nested_schema(levels, wrap))
        return schema_to_arrow(schema), schema_to_json(schema), str(schema)

    outcome = value_or_library_error(convert)
    if levels < 98:  # Python's recursion limit allows this depth for each of the conversions
        assert not isinstance(outcome, DeltaLiteError)


@given(rnd=randoms)
@examples(400)
def test_a_damaged_schema_survives_a_round_trip_through_json_or_raises_an_error(rnd):
    value = SCHEMA
    for _ in range(rnd.choice([1, 1, 2, 3])):
        try:
            text = to_text(mutate_value(rnd, value))
        except RecursionError:
            break
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            break
    note(text[:1000])

    def parse():
        schema = parse_schema(text)
        schema_to_arrow(schema)
        return schema

    outcome = value_or_library_error(parse)
    event(type(outcome).__name__)
    assert isinstance(outcome, DeltaLiteError) or parse_schema(schema_to_json(outcome)) == outcome


_TIMES = st.from_regex(r"[-+]?\d{4,6}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[-+]\d\d:\d\d)?)?", fullmatch=True)
_NUMBERS = st.from_regex(r"[-+]?[0-9.eE_]{1,12}|nan|inf|1e[0-9]{1,9}", fullmatch=True)


@given(text=st.one_of(st.text(max_size=30), _TIMES, _NUMBERS), data_type=st.sampled_from(TYPES))
@example(text="9" * 5000, data_type=PrimitiveType("long"))
@example(text="1e999999999", data_type=DecimalType(38, 10))
@example(text="1e-999999999", data_type=DecimalType(38, 10))
@example(text="-1e6144", data_type=DecimalType(38, 10))
@example(text="\ud800", data_type=PrimitiveType("string"))
@example(text="\ud800", data_type=PrimitiveType("binary"))
@examples(500)
def test_any_text_is_a_partition_value_or_an_error_of_the_library(text, data_type):
    value_or_library_error(lambda: parse_partition_value(text, data_type))
    value_or_library_error(lambda: partition_scalar(text, data_type))


@given(rnd=randoms)
@examples(400)
def test_damaged_statistics_never_raise_an_error(rnd):
    text = to_text(mutate_value(rnd, STATS))
    if rnd.random() < 0.2:
        text = mutate_bytes(rnd, text.encode("utf-8", "surrogatepass")).decode(errors="replace")
    note(text[:1000])

    def statistics_of_leaves():
        stats = parse_stats(text)
        return stats and [facts_from_stats(stats, path, field.type) for path, field in LEAVES]

    assert not isinstance(value_or_library_error(statistics_of_leaves), DeltaLiteError)


@pytest.mark.parametrize(
    "stats",
    [
        *HOSTILE,
        '{"numRecords":',
        "\ud83d",
        '{"numRecords":-1}',
        '{"numRecords":99999999999999999999}',
        '{"minValues":[],"maxValues":5,"nullCount":"x"}',
        '{"minValues":{"a":{}},"maxValues":{"a":[]}}',
    ],
)
def test_malformed_statistics_hide_no_rows(stats):
    name = "delta-rs/cdf-table"
    files = seed_files(name)
    for path in [path for path in files if path.endswith(".json")]:
        lines = [json.loads(line) for line in files[path].splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["stats"] = str(stats)
        files[path] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    table = value_or_library_error(lambda: open_table(store_of(name, files)))
    if isinstance(table, DeltaLiteError):  # Arrow cannot store a lone surrogate
        assert "\ud83d" in stats
        return
    assert rows_of(table.to_arrow()) == expected_rows(name)
    filters = [("id", ">=", 3)]
    undamaged = open_table(store_of(name)).to_arrow()
    assert rows_of(table.to_arrow(filter=filters)) == rows_of(undamaged.filter(pa.compute.field("id") >= 3))
    assert table.files().num_rows == open_table(store_of(name)).files().num_rows


_MAGIC = (1681511377).to_bytes(4, "little")


@given(data=st.binary(max_size=300), cardinality=st.integers(0, 2**40))
@example(data=_MAGIC + (2**40).to_bytes(8, "little"), cardinality=5)
@examples(200)
def test_any_bytes_are_a_bitmap_or_malformed(data, cardinality):
    for prefix in (b"", _MAGIC, _MAGIC + (1).to_bytes(8, "little")):
        try:
            decoded = roaring.decode(prefix + data, cardinality)
        except roaring.MalformedBitmapError:
            continue
        assert len(decoded) == cardinality


@given(name=st.sampled_from([n for n in TABLES if "dv" in n]), rnd=randoms)
@examples(100)
def test_a_damaged_deletion_vector_never_shows_deleted_rows(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name), lambda n: n.endswith(".bin"))
    note(f"{name}: {changes}")
    rows_read = value_or_library_error(lambda: open_table(store_of(name, files)).to_arrow())
    event(type(rows_read).__name__)
    assert isinstance(rows_read, DeltaLiteError) or rows_of(rows_read) == expected_rows(name)


@given(name=st.sampled_from([n for n in TABLES if "dv" in n]), rnd=randoms)
@examples(100)
def test_a_wrong_deletion_vector_descriptor_never_shows_deleted_rows(name, rnd):
    files = seed_files(name)
    for path in [path for path in files if path.endswith(".json")]:
        lines = [json.loads(line) for line in files[path].splitlines()]
        for line in lines:
            vector = line.get("add", {}).get("deletionVector")
            if vector:
                line["add"]["deletionVector"] = mutate_value(rnd, vector) if rnd.random() < 0.9 else vector
                if line["add"]["deletionVector"] == Raw("null"):  # with JSON null, the log is valid without a vector
                    line["add"]["deletionVector"] = vector
        files[path] = b"".join(to_text(line).encode("utf-8", "surrogatepass") + b"\n" for line in lines)
    rows_read = value_or_library_error(lambda: open_table(store_of(name, files)).to_arrow())
    event(type(rows_read).__name__)
    assert isinstance(rows_read, DeltaLiteError) or rows_of(rows_read) == expected_rows(name)


@given(name=st.sampled_from(TABLES), rnd=randoms)
@examples(150)
def test_a_damaged_data_file_gives_rows_of_the_schema_or_an_error(name, rnd):
    undamaged = open_table(store_of(name))
    path = rnd.choice(sorted(undamaged.files()["path"].to_pylist()))
    damaged = mutate_bytes(rnd, (GOLDEN / "tables" / name / path).read_bytes())
    store = store_of(name, {**seed_files(name), path: damaged})
    note(f"{name}: {path}")
    table = open_table(store)

    def read():
        rows_read = table.to_arrow()
        rows_read.validate()  # only `validate(full=True)` would also reject texts that are not UTF-8
        return rows_read

    rows_read = value_or_library_error(read)
    event(type(rows_read).__name__)
    assert isinstance(rows_read, DeltaLiteError) or rows_read.schema.equals(undamaged.schema)
    value_or_library_error(lambda: list(table.to_batches(filter=[(undamaged.schema.names[0], "!=", None)])))


_READ_WITH_LIMITS = """
import resource, sys
import pyarrow as pa
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from deltalite.errors import DeltaLiteError
from deltalite.table import DeltaTable
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(DeltaTable(sys.argv[1]).to_arrow().num_rows)
except DeltaLiteError as error:
    print(type(error).__name__)
growth_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert growth_kib < 300_000 and pa.default_memory_pool().max_memory() < 300_000_000, growth_kib
"""


@pytest.mark.parametrize(
    ("name", "key", "wrong_size"),
    [
        ("derived/table-with-dv-small", "size", 2**62),
        ("derived/table-with-dv-small", "size", -(2**62)),
        ("derived/table-with-dv-small", "sizeInBytes", 2**31 - 1),
        ("derived/table-with-dv-small", "cardinality", 2**62),
        ("derived/dv-inline", "sizeInBytes", 2**31 - 1),
        ("derived/dv-inline", "cardinality", 2**62),
    ],
)
def test_a_wrong_size_costs_neither_memory_nor_time(name, key, wrong_size, tmp_path):
    for path in (GOLDEN / "tables" / name).rglob("*"):
        target = tmp_path / path.relative_to(GOLDEN / "tables" / name)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    for path in (tmp_path / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                body = line["add"] if key == "size" else line["add"].get("deletionVector", {})
                body[key] = wrong_size
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    environment = {"PYTHONPATH": str(CHECKOUT / "spark_jobs")}
    process = subprocess.run(
        [sys.executable, "-c", _READ_WITH_LIMITS, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout.strip() in ("8", "CorruptDataFileError", "CorruptLogError"), process.stdout


@pytest.mark.parametrize(
    "path", ["", "\0", "a\0b", "..", "/", ".", "a" * 5000, "%00", "%", "file:", "file:/", "s3://b/k", "_delta_log"]
)
def test_a_path_that_names_no_file_is_an_error_of_the_library(path):
    name = "derived/dv-inline"
    files = {}
    for file_name, data in seed_files(name).items():
        lines = [json.loads(line) for line in data.splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["path"] = path
        files[file_name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert isinstance(value_or_library_error(lambda: open_table(store_of(name, files)).to_arrow()), DeltaLiteError)


def test_the_undamaged_schema_is_a_struct_with_a_map():
    assert isinstance(parse_schema(json.dumps(SCHEMA)), StructType)
    assert isinstance(LEAVES[2][1].type, MapType)
