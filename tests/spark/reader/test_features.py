"""Spark reads data files of tables with features, such as mapped columns, wider types and void columns.

The tests build the tables by hand and compute the expected rows without a reader of this library.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltalite.spark as delta
from deltalite.errors import CorruptDataFileError, CorruptLogError, UnsupportedStorageError
from deltalite.protocol.schema import parse_type
from deltalite.protocol.type_changes import is_widening
from deltalite.spark.runtime.session import settings
from tests.support.tables import (
    physical_plan,
    row_addresses,
    schema_json,
    sorted_rows,
    spark_rows,
    write_data_file,
    write_foreign_table,
    write_numbered_file,
)

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]


def field(name, data_type, number, physical, **metadata):
    mapping_metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical, **metadata}
    return {"name": name, "type": data_type, "nullable": True, "metadata": mapping_metadata}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def column_mapping(mode):
    return {"features": ("columnMapping",), "configuration": {"delta.columnMapping.mode": mode}}


def test_mapped_columns_are_read_at_every_depth(spark, tmp_path, relation_kind):
    inner = struct(field("a b", "long", 4, "p4"), field("C", "string", 5, "p5"))
    schema = struct(
        field("day.", "string", 1, "p1"),
        field("p1", "long", 2, "p2"),
        field("s", inner, 3, "p3"),
        field("l", {"type": "array", "elementType": inner, "containsNull": True}, 6, "p6"),
        field("m", {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}, 7, "p7"),
    )
    stored_struct = pa.struct([("p4", pa.int64()), ("p5", pa.string())])
    stored_item = {"p4": 1, "p5": "x"}
    content = pa.table(
        {
            "p2": [10, 20],
            "p3": pa.array([stored_item, None], stored_struct),
            "p6": pa.array([[stored_item, None], None], pa.list_(stored_struct)),
            "p7": pa.array([[("k", stored_item)], []], pa.map_(pa.string(), stored_struct)),
        }
    )
    table = tmp_path / "t"
    adds = [write_data_file(table, "1.parquet", content) | {"partitionValues": {"p1": "d"}}]
    write_foreign_table(table, json.dumps(schema), adds, ("day.",), **column_mapping("name"))
    frame = delta.read(spark, str(table))
    logical_item = {"a b": 1, "C": "x"}
    assert [row.asDict(recursive=True) for row in frame.orderBy("p1").collect()] == [
        {"day.": "d", "p1": 10, "s": logical_item, "l": [logical_item, None], "m": {"k": logical_item}},
        {"day.": "d", "p1": 20, "s": None, "l": None, "m": {}},
    ]
    filtered = frame.where("p1 > 15 AND `day.` = 'd'").select("p1")
    plan = physical_plan(filtered)
    assert "GreaterThan(p2,15)" in plan and "ReadSchema: struct<p2:bigint>" in plan
    # Only the native relation knows the partition columns, so only its plan lists filters on them.
    assert ("PartitionFilters: [isnotnull(p1" in plan) is (relation_kind == "native")
    assert [tuple(row) for row in filtered.collect()] == [(20,)]


def with_ids(**columns):
    """Build a table from columns as `name=(field id, values)`. A column with the id None gets no field id."""
    fields = [
        pa.field(name, pa.int64(), metadata=None if number is None else {"PARQUET:field_id": str(number)})
        for name, (number, _) in columns.items()
    ]
    return pa.table([values for _, values in columns.values()], schema=pa.schema(fields))


def test_columns_are_matched_by_field_id_and_not_by_name(spark, tmp_path, relation_kind):
    """A file may store a column under the physical name of another one, so the scan pushes down no filter by name."""
    table = tmp_path / "t"
    adds = [
        write_data_file(table, "1.parquet", with_ids(a=(2, [1, 2]), b=(1, [10, 20]))),
        write_data_file(table, "2.parquet", with_ids(a=(1, [30]), b=(2, [3]))),
        write_data_file(table, "3.parquet", with_ids(b=(7, [99]), a=(1, [40]))),
    ]
    write_foreign_table(
        table, json.dumps(struct(field("x", "long", 1, "a"), field("y", "long", 2, "b"))), adds, **column_mapping("id")
    )
    assert spark_rows(spark, table) == sorted_rows([(10, 1), (20, 2), (30, 3), (40, None)])
    frame = delta.read(spark, str(table))
    assert sorted_rows(frame.where("x >= 20 AND y < 9").collect()) == [(20, 2), (30, 3)]
    assert sorted_rows(frame.where("y IS NULL").collect()) == [(40, None)]
    assert all(not field_read.metadata for field_read in frame.schema.fields)
    # The scan does not change the settings of the user's session, and a view of that session can read the frame.
    assert spark.conf.get("spark.sql.parquet.fieldId.read.enabled") == "false"
    frame.createOrReplaceTempView("by_id")
    with settings(spark, {"spark.sql.parquet.enableVectorizedReader": "false"}):
        assert sorted_rows(spark.sql("SELECT x FROM by_id WHERE y = 1").collect()) == [(10,)]
    spark.catalog.dropTempView("by_id")


def test_a_file_without_field_ids_is_rejected_in_id_mode(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    adds = [write_data_file(table, "1.parquet", with_ids(a=(None, [1])))]
    write_foreign_table(table, json.dumps(struct(field("x", "long", 1, "a"))), adds, **column_mapping("id"))
    with pytest.raises(CorruptDataFileError, match=r"1\.parquet"):
        spark_rows(spark, table)


# The types before a change: the Arrow type, and values.
NARROW = {
    "byte": (pa.int8(), [1, -128, None]),
    "short": (pa.int16(), [1, -32768, None]),
    "integer": (pa.int32(), [1, -(2**31), None]),
    "long": (pa.int64(), [1, -(2**63), None]),
    "float": (pa.float32(), [1.5, -0.25, None]),
    "date": (pa.date32(), [dt.date(2026, 3, 8), dt.date(1, 1, 1), None]),
    "decimal(4,2)": (pa.decimal128(4, 2), [Decimal("12.34"), Decimal("-99.99"), None]),
    "decimal(12,2)": (pa.decimal128(12, 2), [Decimal("12.34"), Decimal("-9999999999.99"), None]),
    "decimal(22,2)": (pa.decimal128(22, 2), [Decimal("12.34"), Decimal("-99999999999999999999.99"), None]),
}
WIDE = [
    "short", "integer", "long", "double", "timestamp_ntz", "decimal(3,0)", "decimal(4,1)", "decimal(5,0)",
    "decimal(10,0)", "decimal(12,2)", "decimal(12,6)", "decimal(20,0)", "decimal(21,1)", "decimal(22,2)",
    "decimal(38,10)",
]  # fmt: skip
# (type before the change, type after the change)
PAIRS = [(old, new) for old in NARROW for new in WIDE if old != new and is_widening(parse_type(old), parse_type(new))]
ARROW_TYPES = {
    "short": pa.int16(), "integer": pa.int32(), "long": pa.int64(), "double": pa.float64(),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


def widened(value, new_type):
    """The value after the change of its column to a wider type."""
    match value:
        case None:
            return None
        case dt.date():
            return dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001  timestamp_ntz has no zone
        case _ if new_type.startswith("decimal"):
            return Decimal(value)
        case _:
            return float(value) if new_type == "double" else value


def arrow_type(name):
    return (
        pa.decimal128(*json.loads(name.replace("decimal(", "[").replace(")", "]")))
        if "(" in name
        else ARROW_TYPES[name]
    )


@pytest.mark.sample(True)
@pytest.mark.parametrize("dictionary", [True, False])
def test_files_from_before_a_type_change_are_read_with_the_wider_type(spark, tmp_path, relation_kind, dictionary):
    """For each pair of types, the table has a column, a struct, an array and a map; one file has the old type."""
    table = tmp_path / "t"
    table.mkdir()
    fields, old_columns, new_columns = [], {}, {}
    expected_values = []
    for n, (old, new) in enumerate(PAIRS):
        change = {"fromType": old, "toType": new}
        member = {"name": "f", "type": new, "nullable": True, "metadata": {"delta.typeChanges": [change]}}
        struct_type = struct(member)
        fields += [
            member | {"name": f"c{n}"},
            {"name": f"s{n}", "type": struct_type, "nullable": True, "metadata": {}},
            {
                "name": f"a{n}",
                "type": {"type": "array", "elementType": new, "containsNull": True},
                "nullable": True,
                "metadata": {"delta.typeChanges": [change | {"fieldPath": "element"}]},
            },
            {
                "name": f"m{n}",
                "type": {"type": "map", "keyType": "string", "valueType": new, "valueContainsNull": True},
                "nullable": True,
                "metadata": {"delta.typeChanges": [change | {"fieldPath": "value"}]},
            },
        ]
        old_type, values = NARROW[old]
        widened_values = [widened(value, new) for value in values]
        expected_values.append(widened_values)
        for columns, column_type, content in (
            (old_columns, old_type, values),
            (new_columns, arrow_type(new), widened_values),
        ):
            columns |= {
                f"c{n}": pa.array(content, column_type),
                f"s{n}": pa.array([{"f": value} for value in content], pa.struct([("f", column_type)])),
                f"a{n}": pa.array([[value] for value in content], pa.list_(column_type)),
                f"m{n}": pa.array([[("k", value)] for value in content], pa.map_(pa.string(), column_type)),
            }
    adds = []
    for name, columns in (("old.parquet", old_columns), ("new.parquet", new_columns)):
        pq.write_table(pa.table(columns), table / name, use_dictionary=dictionary)
        adds.append({"path": name, "size": (table / name).stat().st_size})
    write_foreign_table(table, json.dumps(struct(*fields)), adds, features=("typeWidening", "timestampNtz"))
    frame = delta.read(spark, str(table))
    types_read = {field_read.name: field_read.dataType.simpleString() for field_read in frame.schema.fields}
    spark_names = {"short": "smallint", "integer": "int", "long": "bigint"}
    assert [types_read[f"c{n}"] for n in range(len(PAIRS))] == [spark_names.get(new, new) for _, new in PAIRS]
    rows_read = [row.asDict(recursive=True) for row in frame.collect()]
    assert len(rows_read) == 6
    for n, types in enumerate(PAIRS):
        values = Counter(expected_values[n] * 2)  # in both files
        assert Counter(row[f"c{n}"] for row in rows_read) == values, types
        assert Counter(row[f"s{n}"]["f"] for row in rows_read) == values, types
        assert Counter(row[f"a{n}"][0] for row in rows_read) == values, types
        assert Counter(row[f"m{n}"]["k"] for row in rows_read) == values, types
    conditions = [f"c{n} = CAST('{expected_values[n][1]}' AS {types_read[f'c{n}']})" for n in range(len(PAIRS))]
    assert frame.where(" AND ".join(conditions)).count() == 2


def test_void_columns_are_null_although_no_data_file_has_them(spark, tmp_path, relation_kind):
    struct_with_void = struct(
        {"name": "v", "type": "void", "nullable": True, "metadata": {}}, field("a", "integer", 1, "a")
    )
    struct_of_void = struct({"name": "v", "type": "void", "nullable": True, "metadata": {}})
    schema = schema_json(
        ("id", "long"),
        ("v", "void"),
        ("s", struct_with_void),
        ("l", {"type": "array", "elementType": struct_with_void, "containsNull": True}),
        ("m", {"type": "map", "keyType": "string", "valueType": struct_with_void, "valueContainsNull": True}),
        ("e", struct_of_void),
    )
    stored_struct = pa.struct([("a", pa.int32())])
    content = pa.table(
        {
            "id": [1, 2],
            "s": pa.array([{"a": 7}, None], stored_struct),
            "l": pa.array([[{"a": 8}, None], None], pa.list_(stored_struct)),
            "m": pa.array([[("k", {"a": 9})], None], pa.map_(pa.string(), stored_struct)),
        }
    )
    table = tmp_path / "t"
    write_foreign_table(table, schema, [write_data_file(table, "1.parquet", content)])
    frame = delta.read(spark, str(table))
    assert frame.schema["v"].dataType.simpleString() == "void"
    assert frame.schema["s"].dataType.simpleString() == "struct<v:void,a:int>"
    assert [row.asDict(recursive=True) for row in frame.orderBy("id").collect()] == [
        {
            "id": 1, "v": None, "s": {"v": None, "a": 7}, "l": [{"v": None, "a": 8}, None],
            "m": {"k": {"v": None, "a": 9}}, "e": None,
        },
        {"id": 2, "v": None, "s": None, "l": None, "m": None, "e": None},
    ]  # fmt: skip
    with settings(spark, {"spark.sql.parquet.enableVectorizedReader": "false"}):
        assert frame.where("v IS NULL AND s.v IS NULL").count() == 2


def test_a_variant_column_is_read_with_its_values(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    rows = spark.sql('SELECT 1 AS id, parse_json(\'{"a": [1, null, "x"]}\') AS v UNION ALL SELECT 2, NULL')
    rows.coalesce(1).write.parquet(str(table))
    (file,) = table.glob("*.parquet")
    add = {"path": file.name, "size": file.stat().st_size}
    write_foreign_table(table, schema_json(("id", "integer"), ("v", "variant")), [add], features=("variantType",))
    frame = delta.read(spark, str(table)).selectExpr("id", "to_json(v)", "variant_get(v, '$.a[0]', 'int')")
    assert sorted_rows(frame.collect()) == sorted_rows([(1, '{"a":[1,null,"x"]}', 1), (2, None, None)])


def test_files_of_the_legacy_calendar_are_read_with_the_written_dates(spark, tmp_path, relation_kind):
    """Spark marks such files in their metadata. A file without the mark has dates of the Gregorian calendar."""
    table = tmp_path / "t"
    with settings(
        spark,
        {
            "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
            "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
            "spark.sql.parquet.outputTimestampType": "INT96",
        },
    ):
        rows = spark.sql("SELECT DATE'1000-01-05' AS d, TIMESTAMP'1000-01-05 01:02:03.000004' AS t")
        rows.coalesce(1).write.parquet(str(table))
    (file,) = table.glob("*.parquet")
    gregorian_file = write_data_file(
        table, "plain/1.parquet", d=[dt.date(1000, 1, 5)], t=pa.array([None], pa.timestamp("us", "UTC"))
    )
    adds = [{"path": file.name, "size": file.stat().st_size}, gregorian_file]
    write_foreign_table(table, schema_json(("d", "date"), ("t", "timestamp")), adds)
    rows_read = delta.read(spark, str(table)).selectExpr("CAST(d AS STRING)", "CAST(t AS STRING)").collect()
    assert sorted_rows(rows_read) == sorted_rows([("1000-01-05", "1000-01-05 01:02:03.000004"), ("1000-01-05", None)])


def test_a_file_is_read_completely_even_if_its_logged_size_is_wrong(spark, tmp_path, relation_kind):
    """Spark would skip row groups beyond the logged size, and files with a logged size of 0."""
    table = tmp_path / "t"
    adds = [
        write_numbered_file(table, "1.parquet", 0, 1000) | {"size": 1000},
        write_numbered_file(table, "2.parquet", 1000, 10) | {"size": 0},
        write_numbered_file(table, "3.parquet", 1010, 10) | {"size": 10**9},
    ]
    write_foreign_table(table, schema_json(("id", "long")), adds)
    assert spark_rows(spark, table) == sorted_rows((n,) for n in range(1020))


def test_a_data_file_of_zero_bytes_is_an_error(spark, tmp_path):
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "long")), [write_numbered_file(table, "1.parquet", 0, 10)])
    (table / "1.parquet").write_bytes(b"")
    with pytest.raises(CorruptDataFileError, match=r"1\.parquet"):
        spark_rows(spark, table)


def test_data_files_with_non_canonical_paths_are_read(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    adds = []
    for n, logged_path in enumerate(["a/../1.parquet", "./2.parquet", "b//3.parquet", "c%2F4.parquet"]):
        file_name = ["1.parquet", "2.parquet", "b/3.parquet", "c/4.parquet"][n]
        adds.append(write_numbered_file(table, file_name, n, 1) | {"path": logged_path, "partitionValues": {"p": "x"}})
    (table / "a").mkdir()
    write_foreign_table(table, schema_json(("id", "long"), ("p", "string")), adds, ("p",))
    assert spark_rows(spark, table) == [(n, "x") for n in range(4)]
    assert len(set(row_addresses(spark, table))) == 4


def test_a_data_file_on_unsupported_storage_is_rejected_with_its_path(spark, tmp_path):
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "long")), [{"path": "nowhere://bucket/1.parquet", "size": 1}])
    with pytest.raises(UnsupportedStorageError, match=r"nowhere://bucket/1\.parquet"):
        delta.read(spark, str(table))


@pytest.mark.parametrize(
    ("data_type", "text"),
    [("integer", "1_0x"), ("decimal(3,0)", "12345"), ("date", "2026-02-30"), ("date", "-9999-13-31"), ("byte", "300")],
)
def test_a_partition_value_that_does_not_fit_its_type_is_an_error(spark, tmp_path, data_type, text):
    table = tmp_path / "t"
    adds = [write_numbered_file(table, "1.parquet", 0, 1) | {"partitionValues": {"p": text}}]
    write_foreign_table(table, schema_json(("id", "long"), ("p", data_type)), adds, ("p",))
    with pytest.raises(CorruptLogError, match=text), settings(spark, {"spark.sql.ansi.enabled": "false"}):
        delta.read(spark, str(table))
