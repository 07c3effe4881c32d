"""The reader finds the needed columns of a file, reads no other column and converts the values."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.columnar.parquet import file_columns
from deltalite.columnar.parquet.casts import LossyCastError, cast_without_loss
from deltalite.columnar.parquet.file_columns import FileColumns, Layout, fields_of
from deltalite.columnar.predicates.predicate import Comparison, IsNull, Operator
from deltalite.columnar.reader.projection import MetadataColumn, project
from deltalite.errors import CorruptDataFileError, InvalidRequestError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.type_changes import is_widening
from tests.support.lake import field_with, struct_of, with_id

LONG, STRING, VARIANT, VOID = (PrimitiveType(name) for name in ("long", "string", "variant", "void"))


PEOPLE = pa.table(
    {
        "id": [1, 2, 3],
        "address": [
            {"city": "Ulm", "street": {"name": "x", "no": 5}, "zip": 1}, None, {"city": None, "street": None, "zip": 3},
        ],
        "a.b": [7, 8, 9],
        "a": [{"b": 1, "c.d": 2}] * 3,
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "first", "second"),
    [
        (["address.city"], {"address": {"city": "Ulm"}}, {"address": None}),
        (
            ["ADDRESS.ZIP", "id", "address.CITY"],
            {"address": {"city": "Ulm", "zip": 1}, "id": 1},
            {"address": None, "id": 2},
        ),
        (["address.street.no"], {"address": {"street": {"no": 5}}}, {"address": None}),
        (["a.b"], {"a.b": 7}, {"a.b": 8}),
        (["a.c.d"], {"a": {"c.d": 2}}, {"a": {"c.d": 2}}),
        (["id", "ID", "id"], {"id": 1}, {"id": 2}),
        (["address.city", "address"], PEOPLE.select(["address"]).to_pylist()[0], {"address": None}),
    ],
    ids=str,
)
def test_a_path_gives_the_struct_with_the_chosen_members_in_the_order_of_the_table(lake, columns, first, second):
    lake.add(PEOPLE)
    assert lake.rows_of(PEOPLE.schema, columns=columns)[:2] == [first, second]


def test_a_predicate_on_an_unselected_member_does_not_add_the_member(lake):
    lake.add(PEOPLE)
    where = Comparison(column=("address", "zip"), operator=Operator.EQ, literal=3)
    assert lake.rows_of(PEOPLE.schema, columns=["address.city"], predicate=where) == [{"address": {"city": None}}]


@pytest.mark.parametrize(("columns", "leaves"), [(["address.city"], {"address.city"}), (["a.b"], {"a.b"}), ([], set())])
def test_only_the_needed_leaves_are_read(lake, monkeypatch, columns, leaves):
    lake.add(PEOPLE)
    read_columns = []

    class RecordingReader:
        def __init__(self, file):
            self.file, self.inner = file, file.reader

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def iter_batches(self, *args, column_indices, **options):
            read_columns.extend(self.inner.metadata.schema.column(index).path for index in column_indices)
            return self.inner.iter_batches(*args, column_indices=column_indices, **options)

    class RecordingFile(pq.ParquetFile):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.reader = RecordingReader(self)

    monkeypatch.setattr(pq, "ParquetFile", RecordingFile)
    lake.rows_of(PEOPLE.schema, columns=columns)
    assert set(read_columns) == leaves and len(read_columns) == len(leaves)


@pytest.mark.parametrize("columns", [["address.nope"], ["id.x"], [None], "id", ["a.b.c"]])
def test_an_unknown_path_is_rejected_before_a_file_is_read(lake, columns):
    with pytest.raises(InvalidRequestError):
        lake.batches(PEOPLE.schema, columns=columns)


def test_a_struct_without_any_selected_member_in_the_file_keeps_its_nulls(lake):
    lake.add(pa.table({"s": [{"old": 1}, None, {"old": None}]}))
    schema = struct_of(s=struct_of(old=LONG, new=STRING))
    assert lake.rows_of(schema, columns=["s.new"]) == [{"s": {"new": None}}, {"s": None}, {"s": {"new": None}}]
    assert lake.rows_of(schema, columns=["s.new"], predicate=IsNull(("s",))) == [{"s": None}]


# Mapped columns: logical names, physical names and ids.
MAP_VALUE = StructType((field_with("v", LONG, physical="p-v", id=8),))
MAPPED = StructType(
    (
        field_with("id", LONG, physical="p-id", id=1),
        field_with(
            "s",
            StructType((field_with("b", LONG, physical="a", id=4), field_with("a", LONG, physical="b", id=3))),
            physical="p-s",
            id=2,
        ),
        field_with(
            "l", ArrayType(StructType((field_with("x", STRING, physical="p-x", id=6),))), physical="p-l", id=5
        ),
        field_with("m", MapType(STRING, MAP_VALUE), physical="p-m", id=7),
        field_with("day", STRING, physical="p-day", id=9),
    )
)  # fmt: skip
VALUES = {
    "id": [1, 2], "s": [{"a": 10, "b": 20}, None], "l": [[{"x": "u"}], None], "m": [[("k", {"v": 5})], []],
}  # fmt: skip


def mapped_file(by_id: bool) -> pa.Table:
    """The rows of `VALUES`. With `by_id`, the fields have ids and arbitrary names, and otherwise physical names."""
    member = (lambda name, kind, number: with_id(f"any{number}", kind, number)) if by_id else (
        lambda name, kind, number: pa.field(name, kind)
    )  # fmt: skip
    fields = [
        member("p-m", pa.map_(pa.string(), pa.struct([member("p-v", pa.int64(), 8)])), 7),
        member("p-s", pa.struct([member("a", pa.int64(), 4), member("b", pa.int64(), 3)]), 2),
        member("p-id", pa.int32(), 1),
        member("p-l", pa.list_(pa.struct([member("p-x", pa.string(), 6)])), 5),
    ]
    rename = lambda kind, *values: [None if v is None else dict(zip(kind.names, v, strict=True)) for v in values]
    kinds = [f.type for f in fields]
    columns = [
        pa.array([[("k", {kinds[0].item_type.names[0]: 5})], []], kinds[0]),
        pa.array(rename(kinds[1], (20, 10), None), kinds[1]),
        pa.array([1, 2], kinds[2]),
        pa.array([rename(kinds[3].value_type, ("u",)), None], kinds[3]),
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


@pytest.mark.parametrize("mode", [MappingMode.NAME, MappingMode.ID])
def test_mapped_columns_are_found_at_every_depth_and_renamed(lake, mode):
    lake.add(mapped_file(mode is MappingMode.ID), partition_values={"p-day": "x"})
    table = TableSchema(logical=MAPPED, partition_columns=("day",), mode=mode)
    assert lake.rows_of(table) == [
        {**{name: values[row] for name, values in VALUES.items()}, "day": "x"} for row in (0, 1)
    ]
    where = Comparison(column=("s", "a"), operator=Operator.EQ, literal=10)
    assert lake.rows_of(table, columns=["s.b", "day"], predicate=where) == [{"s": {"b": 20}, "day": "x"}]


@pytest.mark.parametrize(("mode", "by_id"), [(MappingMode.NAME, False), (MappingMode.ID, True)])
def test_members_that_swapped_their_names_are_not_confused(lake, mode, by_id):
    """The structs of file and table have equal types, but the members exchanged their names."""
    swapped = StructType((field_with("a", LONG, physical="b", id=2), field_with("b", LONG, physical="a", id=1)))
    kind = pa.struct([with_id("a", pa.int64(), 1), with_id("b", pa.int64(), 2)]) if by_id else pa.struct(
        [("a", pa.int64()), ("b", pa.int64())]
    )  # fmt: skip
    column = with_id("p", kind, 9) if by_id else pa.field("p", kind)
    lake.add(pa.Table.from_arrays([pa.array([{"a": 1, "b": 2}], kind)], schema=pa.schema([column])))
    table = TableSchema(logical=StructType((field_with("s", swapped, physical="p", id=9),)), mode=mode)
    assert lake.rows_of(table) == [{"s": {"a": 2, "b": 1}}]


def test_mode_id_ignores_names_and_reads_an_unknown_id_as_null(lake):
    file = pa.Table.from_arrays([pa.array([1])], schema=pa.schema([with_id("p-id", pa.int64(), 77)]))
    table = TableSchema(logical=StructType(MAPPED.fields[:1]), mode=MappingMode.ID)
    lake.add(file)
    assert lake.rows_of(table) == [{"id": None}]


def test_mode_id_rejects_a_file_without_ids_but_counts_its_rows(lake):
    lake.add(pa.table({"p-id": [1]}))
    table = TableSchema(logical=StructType(MAPPED.fields[:1]), mode=MappingMode.ID)
    with pytest.raises(CorruptDataFileError, match="has no ids"):
        lake.read(table)
    assert lake.read(table, columns=[]).num_rows == 1


def test_mode_id_finds_a_column_without_an_id_by_its_physical_name(lake):
    file_schema = pa.schema([with_id("any", pa.int64(), 1), ("_change_type", pa.string())])
    lake.add(pa.Table.from_arrays([pa.array([1]), pa.array(["insert"])], schema=file_schema))
    extra = field_with("_change_type", STRING, physical="_change_type")
    table = TableSchema(logical=StructType((*MAPPED.fields[:1], extra)), mode=MappingMode.ID)
    assert lake.rows_of(table) == [{"id": 1, "_change_type": "insert"}]


def test_ambiguous_columns_are_rejected_unless_one_has_the_exact_spelling(lake):
    lake.add(pa.table({"ID": [1], "Id": [2]}))
    with pytest.raises(CorruptDataFileError, match=r"could be 'id': 'ID', 'Id'"):
        lake.read(struct_of(id=LONG))
    assert lake.rows_of(struct_of(Id=LONG)) == [{"Id": 2}]


def test_the_error_for_a_wrong_type_names_the_logical_column(lake):
    lake.add(pa.table({"p-id": ["x"]}))
    table = TableSchema(logical=StructType(MAPPED.fields[:1]), mode=MappingMode.NAME)
    with pytest.raises(CorruptDataFileError, match="Column 'id' of"):
        lake.read(table)


def test_a_partition_column_that_the_file_also_has_comes_from_the_log(lake):
    lake.add(pa.table({"a": [1], "day": ["no"]}), partition_values={"day": "yes"})
    schema = struct_of(a=LONG, day=STRING)
    assert lake.rows_of(schema, ["day"]) == [{"a": 1, "day": "yes"}]
    where = Comparison(column=("day",), operator=Operator.EQ, literal="no")
    assert lake.rows_of(schema, ["day"], predicate=where) == []


@pytest.mark.parametrize("text", ["-9999-01-01", "0000-01-01", "+10000-01-01"])
def test_partition_dates_beyond_the_calendar_of_python_are_read(lake, text):
    lake.add(pa.table({"a": [1]}), partition_values={"d": text})
    days = lake.read(struct_of(a=LONG, d=PrimitiveType("date")), ["d"])["d"].cast(pa.int32()).to_pylist()
    assert days == [{"-9999-01-01": -4371587, "0000-01-01": -719528, "+10000-01-01": 2932897}[text]]


# Widened types: each pair of types that the protocol allows, with the extreme values of the narrower type.
EXTREMES = {
    "byte": [-128, 127], "short": [-(2**15), 2**15 - 1], "integer": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [-3.4028234663852886e38, 1.401298464324817e-45], "date": [date(1, 1, 1), date(9999, 12, 31)],
}  # fmt: skip
DECIMALS = [
    DecimalType(3, 0),
    DecimalType(5, 2),
    DecimalType(10, 0),
    DecimalType(20, 1),
    DecimalType(38, 18),
    DecimalType(38, 0),
]
KINDS = [*(PrimitiveType(name) for name in (*EXTREMES, "double", "timestamp_ntz")), *DECIMALS]
PAIRS = [(old, new) for old in KINDS for new in KINDS if old != new and is_widening(old, new)]


def extreme_values(kind):
    if isinstance(kind, DecimalType):
        greatest = Decimal((0, (9,) * kind.precision, -kind.scale))
        return [greatest, -greatest]
    return EXTREMES[kind.name]


def widened_value(value, new):
    if new == PrimitiveType("timestamp_ntz"):
        return datetime.combine(value, datetime.min.time())
    return float(value) if new == PrimitiveType("double") else value


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=str)
def test_every_widening_of_the_protocol_is_read_exactly_at_every_depth(lake, old, new):
    values = [*extreme_values(old), None]
    expected = [None if value is None else widened_value(value, new) for value in values]
    nested = lambda kind: struct_of(v=kind, l=ArrayType(struct_of(x=kind)), m=MapType(kind, kind))
    keys = [(value, value) for value in values[:2]]
    file_schema = schema_of(nested(old))
    rows = [{"v": value, "l": [{"x": value}, None], "m": keys} for value in values]
    lake.add(pa.Table.from_pylist(rows, schema=file_schema))
    rows_read = lake.read(nested(new))
    assert rows_read["v"].type == type_to_arrow(new)
    assert rows_read["v"].to_pylist() == expected
    assert rows_read["l"].to_pylist() == [[{"x": value}, None] for value in expected]
    assert rows_read["m"].to_pylist() == [[(key, key) for key in expected[:2]]] * 3


def schema_of(struct):
    return pa.schema([(f.name, type_to_arrow(f.type)) for f in struct])


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (pa.array([10**4]), pa.decimal128(5, 2)),
        (pa.array([date(9999, 12, 31)]), pa.timestamp("us", "UTC")),
        (pa.array([Decimal("1.55")]), pa.decimal128(5, 1)),
        (pa.array([3_000_000], pa.int32()).cast(pa.date32()), pa.timestamp("ns")),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_the_wider_type_is_never_approximated(value, target):
    with pytest.raises(LossyCastError):
        cast_without_loss(value, target)


def test_the_value_and_not_the_type_of_an_integer_decides_whether_it_fits_a_decimal():
    fitted = cast_without_loss(pa.array([12, -999, None], pa.int32()), pa.decimal128(5, 2))
    assert fitted.to_pylist() == [Decimal("12.00"), Decimal("-999.00"), None] and fitted.type == pa.decimal128(5, 2)


def test_a_void_column_is_null_for_every_file(lake):
    lake.add(pa.table({"a": [1, 2], "v": ["x", None], "s": [{"w": 1, "x": 2}] * 2}))
    rows_read = lake.read(struct_of(a=LONG, v=VOID, s=struct_of(w=VOID, x=LONG)))
    assert rows_read["v"].type == pa.null()
    assert rows_read.to_pylist() == [{"a": a, "v": None, "s": {"w": None, "x": 2}} for a in (1, 2)]
    assert lake.read(struct_of(a=LONG, v=VOID), predicate=IsNull(("v",))).num_rows == 2


def variant_file(*members):
    kind = pa.struct([(name, pa.binary()) for name in members])
    rows = [{"metadata": b"\1\0\0", "value": b"\x0c\1"}, None]
    rows = [row and {name: row.get(name, b"") for name in members} for row in rows]
    return pa.table(
        {"id": [1, 2], "v": pa.array(rows, kind), "n": pa.array([{"v": row} for row in rows], pa.struct([("v", kind)]))}
    )


def test_the_two_binaries_of_a_variant_are_found_by_name(lake):
    lake.add(variant_file("value", "metadata"))
    schema = struct_of(id=LONG, v=VARIANT, n=struct_of(v=VARIANT))
    value = {"metadata": b"\1\0\0", "value": b"\x0c\1"}
    assert lake.rows_of(schema) == [{"id": 1, "v": value, "n": {"v": value}}, {"id": 2, "v": None, "n": {"v": None}}]


# Metadata columns, which the reader adds to the columns of the table.
def test_metadata_columns_have_the_requested_positions(lake):
    lake.add(pa.table({"a": [5, 6, 7]}), "x y.parquet", row_group_size=2)
    rows_read = lake.read(struct_of(a=LONG), columns=["_FILE", "a", MetadataColumn.ROW_INDEX])
    assert rows_read.column_names == ["_file", "a", "_row_index"]
    assert rows_read.to_pylist() == [{"_file": "x y.parquet", "a": a, "_row_index": i} for i, a in enumerate([5, 6, 7])]


def test_a_table_column_hides_a_metadata_column_of_the_same_name_unless_the_enum_is_used(lake):
    lake.add(pa.table({"_row_index": ["own"]}))
    schema = struct_of(_row_index=STRING)
    assert lake.rows_of(schema, columns=["_row_index"]) == [{"_row_index": "own"}]
    assert lake.rows_of(schema, columns=[MetadataColumn.ROW_INDEX]) == [{"_row_index": 0}]
    with pytest.raises(InvalidRequestError, match="two columns '_row_index'"):
        lake.batches(schema, columns=["_row_index", MetadataColumn.ROW_INDEX])


def test_the_schema_of_a_projection_needs_no_files():
    schema = struct_of(a=LONG, s=struct_of(x=LONG, y=STRING))
    projected = project(["s.y", "_is_deleted", "A"], schema).arrow
    assert projected == pa.schema(
        [("s", pa.struct([("y", pa.string())])), pa.field("_is_deleted", pa.bool_(), nullable=False), ("a", pa.int64())]
    )


def test_ids_distinguish_columns_of_the_same_name(lake):
    fields = [with_id("x", pa.int64(), 7), with_id("y", pa.string(), 9), with_id("x", pa.int64(), 8)]
    lake.add(pa.Table.from_arrays([pa.array([1]), pa.array(["s"]), pa.array([2])], schema=pa.schema(fields)))
    table = TableSchema(
        logical=StructType((field_with("b", LONG, physical="x", id=8), field_with("a", LONG, physical="x2", id=7))),
        mode=MappingMode.ID,
    )
    assert lake.rows_of(table) == [{"b": 2, "a": 1}]
    assert lake.rows_of(table, columns=["a"]) == [{"a": 1}]


class CountingName(str):
    """A name that counts how often names are compared or converted to lower case."""

    __slots__ = ()
    steps = 0

    def lower(self):
        CountingName.steps += 1
        return super().lower()

    def __eq__(self, other):
        CountingName.steps += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("spell", [str, str.upper])
@pytest.mark.parametrize("nested", [False, True])
def test_finding_all_columns_takes_a_few_steps_for_each_column(spell, nested):
    count = 500
    names = [f"c{n}" for n in range(count)]
    stored_schema = pa.schema([(spell(name), pa.int64()) for name in names])
    table_schema = StructType(tuple(StructField(CountingName(name), LONG) for name in names))
    if nested:
        stored_schema, table_schema = pa.schema([("s", pa.struct(list(stored_schema)))]), struct_of(s=table_schema)
    layout = Layout(fields=fields_of(stored_schema))
    columns = FileColumns(layout=layout, mode=MappingMode.NONE, file="f", leaf_conversion=lambda _field, _target: None)
    CountingName.steps = 0
    mapped_columns = [columns.find(f, f) for f in table_schema]
    assert [leaf for column in mapped_columns for leaf in column.leaves] == list(range(count))
    assert count <= CountingName.steps < 10 * count


def test_columns_are_searched_once_for_each_file_schema(lake, monkeypatch):
    searched_schemas = []

    def record_search(schema):
        searched_schemas.append(schema.names)
        return fields_of(schema)

    monkeypatch.setattr(file_columns, "fields_of", record_search)
    rows = pa.table({"a": [1], "b": [2]})
    for number in range(3):
        # A file's metadata is not part of its columns.
        lake.add(rows.replace_schema_metadata({"written": str(number)}), f"{number}.parquet")
    lake.add(pa.table({"x": [0], "b": [4], "a": [3]}), "other.parquet")
    lake.add(pa.table({"b": [6], "a": [5]}), "swapped.parquet")
    expected = [*[{"a": 1, "b": 2}] * 3, {"a": 3, "b": 4}, {"a": 5, "b": 6}]
    assert lake.rows_of(struct_of(a=LONG, b=LONG)) == expected
    assert searched_schemas == [["a", "b"], ["x", "b", "a"], ["b", "a"]]


def test_files_that_differ_only_in_field_ids_are_searched_separately(lake):
    for number, ids in enumerate(((1, 2), (2, 1))):
        schema = pa.schema([with_id(name, pa.int64(), field_id) for name, field_id in zip("xy", ids, strict=True)])
        lake.add(pa.table([[10], [20]], schema=schema), f"{number}.parquet")
    columns = StructType((field_with("a", LONG, physical="p", id=1),))
    assert lake.rows_of(TableSchema(logical=columns, mode=MappingMode.ID)) == [{"a": 10}, {"a": 20}]
