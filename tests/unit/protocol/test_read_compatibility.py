"""A newer schema reads the rows of an older one if it adds or widens columns. Other changes give a reason."""

from __future__ import annotations

import pytest

from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.read_compatibility import incompatibility, value_incompatibility
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType

LONG, INT, STRING = (PrimitiveType(name) for name in ("long", "integer", "string"))
VOID = PrimitiveType("void")


def table_schema(*fields, partition_columns=(), mode=MappingMode.NONE):
    return TableSchema(logical=StructType(fields), partition_columns=partition_columns, mode=mode)


def column(name, data_type=LONG, physical=None, *, nullable=True):
    mapping = {} if physical is None else {PHYSICAL_NAME: physical, FIELD_ID: 1}
    return StructField(name, data_type, nullable, mapping)


def nested(*fields):
    """The same fields in a struct, in the elements of a list, and in keys and values of a map."""
    inner = StructType(fields)
    yield column("s", inner)
    yield column("s", ArrayType(inner))
    yield column("s", MapType(inner, STRING))
    yield column("s", MapType(STRING, inner))


COMPATIBLE = [
    ((column("a"),), (column("a"),)),
    ((column("a"),), (column("b"), column("a"))),
    ((column("a"),), (column("A"),)),
    ((column("a", INT),), (column("a", LONG),)),
    ((column("a", DecimalType(5, 2)),), (column("a", DecimalType(8, 3)),)),
    ((column("a", VOID),), (column("a", STRING),)),
    ((column("a", nullable=False),), (column("a"),)),
]
INCOMPATIBLE = [
    ((column("a"), column("b")), (column("a"),), "the column '{}b' was dropped"),
    ((column("a"),), (column("b"),), "the column '{}a' was dropped"),
    ((column("a", LONG),), (column("a", INT),), "the type of the column '{}a' changed from bigint to int"),
    ((column("a", LONG),), (column("a", STRING),), "the type of the column '{}a' changed from bigint to string"),
    ((column("a", LONG),), (column("a", ArrayType(LONG)),), "'{}a' changed from bigint to array<bigint>"),
    ((column("a"),), (column("a", nullable=False),), "the column '{}a' became NOT NULL"),
    ((column("a"),), (column("a"), column("b", nullable=False)), "the column '{}b' was added as NOT NULL"),
]


@pytest.mark.parametrize(("older", "newer"), COMPATIBLE)
def test_added_and_widened_columns_are_compatible_at_any_depth(older, newer):
    assert incompatibility(table_schema(*older), table_schema(*newer)) is None
    for older_field, newer_field in zip(nested(*older), nested(*newer), strict=True):
        assert incompatibility(table_schema(older_field), table_schema(newer_field)) is None


@pytest.mark.parametrize(("older", "newer", "reason"), INCOMPATIBLE)
def test_the_reason_names_an_incompatible_field_at_any_depth(older, newer, reason):
    assert reason.format("") in incompatibility(table_schema(*older), table_schema(*newer))
    paths = ("s.", "s.element.", "s.key.", "s.value.")
    for older_field, newer_field, path in zip(nested(*older), nested(*newer), paths, strict=True):
        assert reason.format(path) in incompatibility(table_schema(older_field), table_schema(newer_field))


def test_the_reason_names_elements_and_values_that_became_not_null():
    for type_of, part in (
        (lambda nullable: ArrayType(LONG, nullable), "elements"),
        (lambda nullable: MapType(LONG, LONG, nullable), "values"),
    ):
        assert (
            incompatibility(table_schema(column("a", type_of(False))), table_schema(column("a", type_of(True)))) is None
        )
        assert f"the {part} of the column 'a'" in incompatibility(
            table_schema(column("a", type_of(True))), table_schema(column("a", type_of(False)))
        )


def test_other_partition_columns_are_incompatible_and_another_case_of_their_names_is_compatible():
    partitioned = table_schema(column("a"), column("b"), partition_columns=("a",))
    assert "changed from (a) to ()" in incompatibility(partitioned, table_schema(column("a"), column("b")))
    assert "changed from (a) to (b)" in incompatibility(
        partitioned, table_schema(column("a"), column("b"), partition_columns=("b",))
    )
    assert incompatibility(partitioned, table_schema(column("a"), column("b"), partition_columns=("A",))) is None


def test_column_mapping_identifies_columns_by_physical_name():
    by_name = MappingMode.NAME
    older = table_schema(column("a", physical="p"), mode=by_name)
    assert (
        incompatibility(older, table_schema(column("b", physical="q"), column("a", physical="p"), mode=by_name)) is None
    )
    assert (
        incompatibility(older, table_schema(column("b", physical="p"), mode=by_name))
        == "the column 'a' was renamed to 'b'"
    )
    # The column was dropped, and another column with its name was added.
    assert incompatibility(older, table_schema(column("a", physical="q"), mode=by_name)) == "the column 'a' was dropped"


def test_column_mapping_may_be_enabled_once_and_not_changed():
    unmapped, by_name = table_schema(column("a")), table_schema(column("a", physical="a"), mode=MappingMode.NAME)
    by_id = table_schema(column("a", physical="a"), mode=MappingMode.ID)
    assert incompatibility(unmapped, by_name) is None
    assert incompatibility(unmapped, table_schema(column("b", physical="a"), mode=MappingMode.NAME)) is not None
    assert "from name to none" in incompatibility(by_name, unmapped)
    assert "from name to id" in incompatibility(by_name, by_id)


def test_an_unreadable_value_has_a_reason_with_the_logical_names_of_columns_at_any_depth():
    def mapped(name, *fields):
        columns = (column(name, field.type, "col-1") for field in nested(*fields))
        return [table_schema(field, mode=MappingMode.NAME) for field in columns]

    older = mapped("before", column("a", LONG, "col-2"), column("dropped", LONG, "col-3"))
    newer = mapped("s", column("added", INT, "col-4"), column("b", INT, "col-2"))
    for older_schema, newer_schema, path in zip(older, newer, ("s", "s.element", "s.key", "s.value"), strict=True):
        reason = f"the type of the column '{path}.b' changed from bigint to int"
        assert value_incompatibility(older_schema, newer_schema) == reason
        assert value_incompatibility(older_schema, older_schema) is None
    struct_column = table_schema(column("s", StructType((column("a", LONG, "col-2"),)), "col-1"), mode=MappingMode.NAME)
    long_column = table_schema(column("s", LONG, "col-1"), mode=MappingMode.NAME)
    reason = "the type of the column 's' changed from struct<a:bigint> to bigint"
    assert value_incompatibility(struct_column, long_column) == reason
