"""Rows of an older schema under a newer one: added and widened columns are read, other changes give a reason."""

from __future__ import annotations

import pytest

from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.read_compatibility import incompatibility
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType

LONG, INT, STRING = (PrimitiveType(name) for name in ("long", "integer", "string"))
VOID = PrimitiveType("void")


def table(*fields, partition_columns=(), mode=MappingMode.NONE):
    return TableSchema(logical=StructType(fields), partition_columns=partition_columns, mode=mode)


def column(name, kind=LONG, physical=None, *, nullable=True):
    mapping = {} if physical is None else {PHYSICAL_NAME: physical, FIELD_ID: 1}
    return StructField(name, kind, nullable, mapping)


def nested(*fields):
    """The same fields in a struct, in the elements of a list, and in keys and values of a map."""
    inner = StructType(fields)
    yield column("s", inner)
    yield column("s", ArrayType(inner))
    yield column("s", MapType(inner, STRING))
    yield column("s", MapType(STRING, inner))


BRIDGED = [
    ((column("a"),), (column("a"),)),
    ((column("a"),), (column("b"), column("a"))),
    ((column("a"),), (column("A"),)),
    ((column("a", INT),), (column("a", LONG),)),
    ((column("a", DecimalType(5, 2)),), (column("a", DecimalType(8, 3)),)),
    ((column("a", VOID),), (column("a", STRING),)),
    ((column("a", nullable=False),), (column("a"),)),
]
DIFFERENT = [
    ((column("a"), column("b")), (column("a"),), "the column '{}b' was dropped"),
    ((column("a"),), (column("b"),), "the column '{}a' was dropped"),
    ((column("a", LONG),), (column("a", INT),), "the type of the column '{}a' changed from bigint to int"),
    ((column("a", LONG),), (column("a", STRING),), "the type of the column '{}a' changed from bigint to string"),
    ((column("a", LONG),), (column("a", ArrayType(LONG)),), "'{}a' changed from bigint to array<bigint>"),
    ((column("a"),), (column("a", nullable=False),), "the column '{}a' became NOT NULL"),
    ((column("a"),), (column("a"), column("b", nullable=False)), "the column '{}b' was added as NOT NULL"),
]


@pytest.mark.parametrize(("older", "newer"), BRIDGED)
def test_added_and_widened_columns_are_bridged_at_any_depth(older, newer):
    assert incompatibility(table(*older), table(*newer)) is None
    for a, b in zip(nested(*older), nested(*newer), strict=True):
        assert incompatibility(table(a), table(b)) is None


@pytest.mark.parametrize(("older", "newer", "reason"), DIFFERENT)
def test_the_error_names_an_incompatible_field_at_any_depth(older, newer, reason):
    assert reason.format("") in incompatibility(table(*older), table(*newer))
    paths = ("s.", "s.element.", "s.key.", "s.value.")
    for a, b, path in zip(nested(*older), nested(*newer), paths, strict=True):
        assert reason.format(path) in incompatibility(table(a), table(b))


def test_the_error_names_elements_and_values_that_became_not_null():
    for kind, part in ((lambda null: ArrayType(LONG, null), "elements"), (lambda n: MapType(LONG, LONG, n), "values")):
        assert incompatibility(table(column("a", kind(False))), table(column("a", kind(True)))) is None
        assert f"the {part} of the column 'a'" in incompatibility(
            table(column("a", kind(True))), table(column("a", kind(False)))
        )


def test_another_partitioning_is_a_difference_and_another_case_of_a_name_is_none():
    parted = table(column("a"), column("b"), partition_columns=("a",))
    assert "changed from (a) to ()" in incompatibility(parted, table(column("a"), column("b")))
    assert "changed from (a) to (b)" in incompatibility(
        parted, table(column("a"), column("b"), partition_columns=("b",))
    )
    assert incompatibility(parted, table(column("a"), column("b"), partition_columns=("A",))) is None


def test_column_mapping_identifies_columns_by_physical_name():
    name = MappingMode.NAME
    older = table(column("a", physical="p"), mode=name)
    assert incompatibility(older, table(column("b", physical="q"), column("a", physical="p"), mode=name)) is None
    assert incompatibility(older, table(column("b", physical="p"), mode=name)) == "the column 'a' was renamed to 'b'"
    # Dropped, and another of its name added.
    assert incompatibility(older, table(column("a", physical="q"), mode=name)) == "the column 'a' was dropped"


def test_column_mapping_may_be_enabled_once_and_not_changed():
    plain, named = table(column("a")), table(column("a", physical="a"), mode=MappingMode.NAME)
    by_id = table(column("a", physical="a"), mode=MappingMode.ID)
    assert incompatibility(plain, named) is None
    assert incompatibility(plain, table(column("b", physical="a"), mode=MappingMode.NAME)) is not None
    assert "from name to none" in incompatibility(named, plain)
    assert "from name to id" in incompatibility(named, by_id)
