"""Each field of a schema gets a unique id and physical name, which no other column gets later."""

from __future__ import annotations

from itertools import count

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.protocol.column_ids import new_physical_name, with_column_ids
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    parse_schema,
)
from tests.support.lake import struct_of
from tests.unit.builders import metadata

MODE, MAX_COLUMN_ID = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
LONG, TEXT = PrimitiveType("long"), PrimitiveType("string")


NESTED = struct_of(
    a=LONG, s=struct_of(x=LONG), l=ArrayType(struct_of(y=TEXT)), m=MapType(struct_of(k=LONG), struct_of(v=LONG))
)


def assigned_ids(schema, mode="name", previous=None, configuration=None, *, first=1, **options):
    """The assigned ids and physical names by field name, the stored highest id, and the new metadata.

    The new physical names are `p<first>`, `p<first + 1>` and so on.
    """
    names = (f"p{n}" for n in count(first))
    requested = metadata({MODE: mode, **(configuration or {})}, schema=schema)
    with_ids = with_column_ids(requested, previous, new_name=lambda: next(names), **options)
    fields = list(all_fields(parse_schema(with_ids.schema_string)))
    ids = {f.name: f.metadata.get(FIELD_ID) for f in fields}
    return (
        ids,
        {f.name: f.metadata.get(PHYSICAL_NAME) for f in fields},
        with_ids.configuration.get(MAX_COLUMN_ID),
        with_ids,
    )


def as_table(table_metadata, mode=MappingMode.NAME):
    return TableSchema(logical=parse_schema(table_metadata.schema_string), mode=mode)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_every_field_of_a_new_table_gets_a_unique_id_and_physical_name(mode):
    ids, names, highest, _ = assigned_ids(NESTED, mode)
    assert sorted(ids.values()) == list(range(1, 9)) and highest == "8"
    assert len(set(names.values())) == 8 and None not in names.values()
    assert new_physical_name().startswith("col-") and new_physical_name() != new_physical_name()


def test_a_table_without_column_mapping_gets_no_ids():
    plain = metadata({}, schema=NESTED)
    assert with_column_ids(plain, None) is plain
    assert with_column_ids(plain, TableSchema(logical=NESTED)) is plain


def test_new_columns_get_ids_above_the_highest_id_ever_used():
    _, _, _, before = assigned_ids(struct_of(a=LONG, s=struct_of(x=LONG)))
    old_fields = parse_schema(before.schema_string).fields
    inner = StructType((*old_fields[1].type.fields, StructField("z", TEXT)))
    new_schema = StructType(
        (old_fields[0], StructField("s", inner, True, old_fields[1].metadata), StructField("b", TEXT))
    )
    ids, names, highest, new_metadata = assigned_ids(
        new_schema, previous=as_table(before), configuration={MAX_COLUMN_ID: "40"}, keeps_files=True, first=8
    )
    assert ids == {"a": 1, "s": 2, "x": 3, "z": 41, "b": 42} and highest == "42"
    assert names == {"a": "p1", "s": "p2", "x": "p3", "z": "p8", "b": "p9"}
    assert with_column_ids(new_metadata, as_table(new_metadata)) is new_metadata


def test_a_new_schema_keeps_the_ids_of_fields_with_the_same_path_and_type():
    _, _, _, before = assigned_ids(struct_of(a=LONG, b=TEXT, s=struct_of(x=LONG, y=TEXT)))
    new_schema = struct_of(A=LONG, b=LONG, s=struct_of(x=LONG), c=TEXT)
    # The requested metadata does not have the highest id.
    ids, names, highest, _ = assigned_ids(new_schema, previous=as_table(before), first=6)
    assert ids == {"A": 1, "b": 6, "s": 7, "x": 4, "c": 8} and highest == "8"
    assert names["A"] == "p1" and names["x"] == "p4"


def test_a_table_that_keeps_its_files_maps_columns_to_their_names():
    before = TableSchema(logical=struct_of(a=LONG, s=struct_of(x=LONG)))
    ids, names, _, _ = assigned_ids(struct_of(a=LONG, s=struct_of(x=LONG), b=LONG), previous=before, keeps_files=True)
    assert names == {"a": "a", "s": "s", "x": "x", "b": "p1"} and sorted(ids.values()) == [1, 2, 3, 4]
    _, names, _, _ = assigned_ids(struct_of(a=LONG), previous=before)
    assert names == {"a": "p1"}
    evolved = struct_of(a=PrimitiveType("double"), s=struct_of(x=LONG, y=LONG))
    _, names, _, _ = assigned_ids(evolved, previous=before, keeps_files=True)
    assert names == {"a": "a", "s": "s", "x": "x", "y": "p1"}


def test_a_highest_id_that_is_not_a_number_raises_an_error():
    with pytest.raises(InvalidRequestError, match="maxColumnId"):
        assigned_ids(struct_of(a=LONG), configuration={MAX_COLUMN_ID: "many"})


def test_physical_names_of_an_unmapped_table_are_rejected():
    schema = StructType((StructField("a", LONG, True, {PHYSICAL_NAME: "x"}),))
    with pytest.raises(InvalidRequestError, match="'a' has a physical name"):
        assigned_ids(schema, previous=TableSchema(logical=schema), keeps_files=True)


@pytest.mark.parametrize(("before", "after"), [("none", "id"), ("name", "none"), ("name", "id"), ("id", "name")])
def test_the_mapping_mode_changes_only_from_none_to_name(before, after):
    schema = struct_of(a=LONG)
    _, _, _, new_metadata = assigned_ids(schema, "none" if before == "none" else before)
    with pytest.raises(InvalidRequestError, match=f"'{before}' in the table and '{after}'") as caught:
        assigned_ids(schema, after, previous=as_table(new_metadata, MappingMode(before)))
    assert caught.value.remedy
