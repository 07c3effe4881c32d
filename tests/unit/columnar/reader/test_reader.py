"""The reader returns rows in the table's schema from the data files of every writer, or raises an error."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltalite.columnar.parquet.casts import cast_without_loss
from deltalite.columnar.parquet.files import read_footers
from deltalite.columnar.predicates.binding import bind
from deltalite.columnar.predicates.predicate import (
    And,
    Constant,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    StartsWith,
    Unknown,
)
from deltalite.columnar.predicates.row_filter import truth_values
from deltalite.errors import CorruptDataFileError, CorruptLogError, InvalidRequestError
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.schema import DecimalType, PrimitiveType, StructField, StructType
from tests.support.lake import comparison, struct_of
from tests.unit.builders import schema_from_arrow

LONG = PrimitiveType("long")


def test_rows_have_the_order_of_the_files_and_the_schema_of_the_table(lake):
    lake.add(pa.table({"a": [1, 2], "b": ["x", None]}), "1.parquet").add(pa.table({"b": ["y"], "a": [3]}), "2.parquet")
    schema = struct_of(a=LONG, b=PrimitiveType("string"))
    assert lake.read(schema).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "y"}]
    assert lake.read(schema).schema == schema_to_arrow(schema)


def test_no_files_give_no_batches(lake):
    assert lake.read(struct_of(a=LONG)) is None


def test_batches_have_at_most_the_requested_number_of_rows(lake):
    lake.add(pa.table({"a": list(range(10))}), row_group_size=7)
    sizes = [b.num_rows for b in lake.batches(struct_of(a=LONG), batch_size=4)]
    assert sum(sizes) == 10 and max(sizes) <= 4


def test_only_one_file_is_open_at_a_time_and_none_before_the_first_batch(lake):
    lake.add(pa.table({"a": [1]})).list_file("missing.parquet")
    batches = lake.batches(struct_of(a=LONG))
    assert next(batches).num_rows == 1
    with pytest.raises(CorruptDataFileError, match=r"'missing\.parquet'"):
        next(batches)


def test_selected_columns_are_case_insensitive_and_have_the_requested_order(lake):
    lake.add(pa.table({"a": [1], "b": [2], "c": [3]}))
    selected = lake.read(struct_of(a=LONG, b=LONG, C=LONG), columns=["c", "A"])
    assert selected.column_names == ["C", "a"] and selected.to_pylist() == [{"C": 3, "a": 1}]


def test_an_unknown_column_is_rejected_with_the_list_of_columns_before_a_file_is_read(lake):
    with pytest.raises(InvalidRequestError, match=r"'nope'.*a, b"):
        lake.batches(struct_of(a=LONG, b=LONG), columns=["a", "nope"])


def test_a_read_without_columns_has_the_number_of_rows(lake):
    lake.add(pa.table({"a": [1, 2, 3]}))
    batches = list(lake.batches(struct_of(a=LONG), columns=[]))
    assert [(b.num_rows, b.num_columns) for b in batches] == [(3, 0)]


def test_column_names_may_have_dots_spaces_and_unicode(lake):
    table = pa.table({"a.b": [1], "a": [{"b": 2, "c d": 3}], "x y": [4], "größe": [5]})
    lake.add(table, "tag=a%20b ü/x y.parquet")
    assert lake.read(table.schema).to_pylist() == table.to_pylist()
    for name in table.column_names:
        assert lake.read(table.schema, columns=[name]).to_pylist() == table.select([name]).to_pylist()


PARTITIONED = struct_of(
    a=LONG,
    s=PrimitiveType("string"),
    d=PrimitiveType("date"),
    t=PrimitiveType("timestamp"),
    m=DecimalType(10, 2),
    f=PrimitiveType("float"),
    y=PrimitiveType("byte"),
    k=PrimitiveType("boolean"),
)


def test_partition_values_come_from_the_log_and_have_their_types(lake):
    values = {
        "s": "ä/=%",
        "d": "2026-01-01",
        "t": "2026-01-01 01:00:00",
        "m": "1.5",
        "f": "NaN",
        "y": "-1",
        "k": "true",
    }
    lake.add(pa.table({"a": [1], "s": ["not this"]}), partition_values=values)
    (row,) = lake.read(PARTITIONED, list("sdtmfyk")).to_pylist()
    assert math.isnan(row.pop("f"))
    assert row == {
        "a": 1, "s": "ä/=%", "d": date(2026, 1, 1), "t": datetime(2026, 1, 1, 1, tzinfo=UTC), "m": Decimal("1.50"),
        "y": -1, "k": True,
    }  # fmt: skip


def test_a_null_or_empty_or_absent_partition_value_is_null(lake):
    lake.add(pa.table({"a": [1]}), partition_values={"s": "", "d": None})
    assert lake.read(PARTITIONED, ["s", "d", "t"], columns=["s", "d", "t"]).to_pylist() == [dict.fromkeys("sdt")]


@pytest.mark.parametrize(("column", "text"), [("y", "300"), ("d", "soon"), ("m", "1.234")])
def test_a_partition_value_that_does_not_fit_its_column_raises_a_corrupt_log_error(lake, column, text):
    lake.add(pa.table({"a": [1]}), partition_values={column: text})
    with pytest.raises(CorruptLogError, match=text):
        lake.read(PARTITIONED, [column])


def test_a_column_that_is_missing_in_the_file_is_null(lake):
    lake.add(pa.table({"a": [1]}))
    assert lake.read(struct_of(a=LONG, new=PrimitiveType("string"))).to_pylist() == [{"a": 1, "new": None}]


def test_column_names_of_the_file_are_case_insensitive(lake):
    lake.add(pa.table({"ID": [1], "St": [{"X": 1}]}))
    schema = struct_of(id=LONG, st=struct_of(x=LONG))
    assert lake.read(schema).to_pylist() == [{"id": 1, "st": {"x": 1}}]


INSTANT = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("stored_values", "options", "expected"),
    [
        (pa.array([1], pa.int32()), {}, pa.array([1], pa.int64())),
        (pa.array([1], pa.int64()), {}, pa.array([1], pa.int8())),
        (pa.array([1], pa.int32()), {}, pa.array([1.0], pa.float64())),
        (pa.array([1.5], pa.float32()), {}, pa.array([1.5], pa.float64())),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), {}, pa.array([Decimal("1.50")], pa.decimal128(10, 2))),
        (pa.array(["x"], pa.large_string()), {}, pa.array(["x"])),
        (pa.array(["x"]).dictionary_encode(), {}, pa.array(["x"])),
        (pa.array([b"x"]), {}, pa.array(["x"])),
        (pa.array([INSTANT], pa.timestamp("ns", "UTC")), {}, pa.array([INSTANT], pa.timestamp("us", "UTC"))),
        (pa.array([INSTANT], pa.timestamp("ns", "Asia/Tokyo")), {}, pa.array([INSTANT], pa.timestamp("us", "UTC"))),
        (pa.array([INSTANT.replace(tzinfo=None)], pa.timestamp("us")), {"use_deprecated_int96_timestamps": True},
         pa.array([INSTANT], pa.timestamp("us", "UTC"))),
        (pa.array([[1], None, [None, 2]], pa.list_(pa.int32())), {},
         pa.array([[1], None, [None, 2]], pa.list_(pa.int64()))),
        (pa.array([[1]], pa.large_list(pa.int64())), {}, pa.array([[1]], pa.list_(pa.int64()))),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())), {},
         pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))),
        (pa.array([{"b": 1}, None, {"b": None}], pa.struct([("b", pa.int32())])), {},
         pa.array([{"a": None, "b": 1}, None, {"a": None, "b": None}],
                  pa.struct([("a", pa.string()), ("b", pa.int64())]))),
        (pa.nulls(1), {}, pa.nulls(1, pa.string())),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)  # fmt: skip
def test_a_file_of_other_types_is_cast_if_no_value_changes(lake, stored_values, options, expected):
    lake.add(pa.table({"c": stored_values}), **options)
    rows_read = lake.read(schema_from_arrow(pa.schema([("c", expected.type)])))
    assert rows_read["c"].combine_chunks().equals(expected)


def test_nested_columns_are_cast_in_every_batch_of_a_file(lake):
    rows = [None if i % 7 == 3 else [{"x": i, "m": [("k", i)]}] * (i % 3) for i in range(50)]
    item_type = lambda number: pa.struct([("x", number), ("m", pa.map_(pa.string(), number))])
    lake.add(pa.table({"c": pa.array(rows, pa.list_(item_type(pa.int32())))}))
    schema = pa.schema([("c", pa.list_(item_type(pa.int64())))])
    assert lake.read(schema, batch_size=6)["c"].to_pylist() == rows


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.large_list(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64())])),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
def test_a_slice_of_a_nested_column_is_cast_like_a_whole_column(narrow, wide):
    kind = str(narrow).partition("<")[0]
    value = {"struct": lambda n: {"x": n}, "map": lambda n: [("k", n), ("l", n + 1)]}.get(kind, lambda n: [n, n + 1])
    sliced = pa.array([value(1), None, value(3), value(5), None, value(7)], narrow).slice(1, 4)
    assert cast_without_loss(sliced, wide).to_pylist() == sliced.to_pylist()
    assert cast_without_loss(sliced.slice(0, 0), wide).to_pylist() == []


@pytest.mark.parametrize(
    ("stored_values", "type_name"),
    [
        (pa.array([300]), "byte"),
        (pa.array([2**53 + 1]), "double"),
        (pa.array([1.5]), "long"),
        (pa.array([1.1], pa.float64()), "float"),
        (pa.array(["1"]), "long"),
        (pa.array([1]), "string"),
        (pa.array([b"\xff"]), "string"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "timestamp"),
        (pa.array([1], pa.timestamp("us", "UTC")), "timestamp_ntz"),
        (pa.array([{"x": 1}]), "long"),
        (pa.array([[1]]), "string"),
    ],
    ids=str,
)
def test_a_lossy_cast_is_rejected_with_file_column_and_both_types(lake, stored_values, type_name):
    lake.add(pa.table({"c": stored_values}), "day=1/f.parquet")
    table_type = PrimitiveType(type_name)
    with pytest.raises(CorruptDataFileError) as caught:
        lake.read(struct_of(c=table_type))
    arrow_type = schema_to_arrow(struct_of(c=table_type)).field("c").type
    assert all(
        part in caught.value.problem
        for part in ("'c'", "day=1/f.parquet", str(stored_values.type).partition("<")[0], str(arrow_type))
    )


def test_the_error_names_a_file_that_is_not_parquet(lake):
    (lake.folder / "bad file.parquet").write_bytes(b"not parquet at all, but long enough")
    with pytest.raises(CorruptDataFileError, match=r"'bad file\.parquet'"):
        lake.list_file("bad%20file.parquet").read(struct_of(a=LONG))


def test_the_error_names_a_file_with_damaged_pages(lake):
    lake.add(pa.table({"a": list(range(10_000))}), compression="zstd", use_dictionary=False)
    path = lake.folder / "f.parquet"
    content = bytearray(path.read_bytes())
    content[4:1_000] = bytes(996)
    path.write_bytes(content)
    with pytest.raises(CorruptDataFileError, match=r"'f\.parquet'"):
        lake.read(struct_of(a=LONG))


def test_footers_have_the_order_of_the_file_names(lake):
    for number in range(12):
        lake.add(pa.table({"a": list(range(number))}), f"{number}.parquet")
    assert [footer.num_rows for footer in read_footers(lake.store, [f"{n}.parquet" for n in range(12)])] == [*range(12)]
    assert read_footers(lake.store, []) == []
    with pytest.raises(CorruptDataFileError, match="gone"):
        read_footers(lake.store, ["0.parquet", "gone.parquet"])


ROWS = pa.table(
    {
        "n": [0, 1, 2, 3, 4],
        "i": pa.array([1, 2, None, 4, 2**53 + 1]),
        "d": pa.array([1.5, math.nan, None, -0.0, math.inf]),
        "s": ["abc", "b", None, "", "ab"],
        "m": pa.array([Decimal("1.10"), Decimal("2.00"), None, Decimal("-3.00"), Decimal("0.00")], pa.decimal128(5, 2)),
        "t": pa.array([INSTANT, None, INSTANT, INSTANT, INSTANT], pa.timestamp("us", "UTC")),
        "st": [{"x": 1}, None, {"x": None}, {"x": 4}, {"x": 5}],
    }
)


@pytest.mark.parametrize(
    ("predicate", "selected_rows"),
    [
        (Constant(True), [0, 1, 2, 3, 4]),
        (Constant(None), []),
        (comparison("i", ">", 1), [1, 3, 4]),
        (Not(comparison("i", ">", 1)), [0]),
        (comparison("i", "=", 2**70), []),
        (comparison("i", "<", 2**70), [0, 1, 3, 4]),
        (comparison("i", "<", Decimal("1.5")), [0]),
        (comparison("i", "<=>", None), [2]),
        (comparison("i", "=", None), []),
        (Not(comparison("i", "<=>", 1)), [1, 2, 3, 4]),
        (In(("i",), (1, 4)), [0, 3]),
        (Not(In(("i",), (1, 4))), [1, 4]),
        (Or((In(("i",), (9, None)), comparison("n", "=", 0))), [0]),
        (Not(In(("s",), ("b", ""))), [0, 4]),
        (Not(In(("i",), (1, None))), []),
        (Not(In(("i",), ())), [0, 1, 2, 3, 4]),
        (IsNull(("i",)), [2]),
        (IsNotNull(("I",)), [0, 1, 3, 4]),
        (Or((IsNull(("i",)), comparison("i", "=", 1))), [0, 2]),
        (And((comparison("i", ">", 1), comparison("d", "<", 1.0))), [3]),
        (comparison("d", ">", 1.0), [0, 1, 4]),
        (comparison("d", "=", math.nan), [1]),
        (comparison("d", "<", math.nan), [0, 3, 4]),
        (comparison("d", "!=", 1.5), [1, 3, 4]),
        (comparison("d", "=", 0), [3]),
        (Not(comparison("d", "<=>", math.nan)), [0, 2, 3, 4]),
        (In(("d",), (math.nan, 0.0)), [1, 3]),
        (StartsWith(("s",), "ab"), [0, 4]),
        (Not(StartsWith(("s",), "ab")), [1, 3]),
        (comparison("s", ">=", "abc"), [0, 1]),
        (comparison("m", ">", Decimal("1.099")), [0, 1]),
        (comparison("m", "=", 2), [1]),
        (comparison("t", "=", INSTANT), [0, 2, 3, 4]),
        (comparison("st/x", ">", 1), [3, 4]),
        (IsNull(("st", "x")), [1, 2]),
        (IsNull(("st",)), [1]),
        (comparison("p", "=", "a"), [0, 1, 2, 3, 4]),
        (Or((comparison("p", "=", "b"), comparison("n", "=", 0))), [0]),
    ],
    ids=str,
)
def test_only_rows_with_a_true_predicate_are_returned(lake, predicate, selected_rows):
    schema = StructType((*schema_from_arrow(ROWS.schema).fields, StructField("p", PrimitiveType("string"))))
    lake.add(ROWS, partition_values={"p": "a"})
    rows_read = lake.read(schema, ["p"], predicate=predicate, columns=["n"])
    assert ([] if rows_read is None else rows_read.to_pydict()) == ({"n": selected_rows} if selected_rows else [])
    # The row filter alone, without the bounds of row groups, selects the same rows.
    (batch,) = ROWS.append_column("p", pa.array(["a"] * 5)).to_batches()
    assert batch.filter(truth_values(batch, bind(predicate, schema)))["n"].to_pylist() == selected_rows


def test_a_float_column_is_compared_as_a_double(lake):
    lake.add(pa.table({"f": pa.array([0.1], pa.float32())}))
    schema = struct_of(f=PrimitiveType("float"))
    assert lake.read(schema, predicate=comparison("f", "=", 0.1)) is None
    assert lake.read(schema, predicate=comparison("f", ">", 0.1)).num_rows == 1


@pytest.mark.parametrize(
    "predicate", [Unknown(frozenset({("a",)})), comparison("a", "=", "1"), Not(comparison("nope", "=", 1))], ids=str
)
def test_a_predicate_that_cannot_be_evaluated_is_rejected_before_a_file_is_read(lake, predicate):
    with pytest.raises(InvalidRequestError, match=r"on (a|nope)"):
        lake.batches(struct_of(a=LONG), predicate=predicate)
