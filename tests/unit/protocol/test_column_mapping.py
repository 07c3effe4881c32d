"""Column mapping: the physical names of columns in files, partition values and statistics."""

from __future__ import annotations

import pytest

from deltalite.errors import CorruptLogError, InvalidRequestError
from deltalite.protocol.column_mapping import MappingMode, TableSchema, field_id, table_schema
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from tests.unit.builders import SCHEMA, metadata

LONG = PrimitiveType("long")


def mapped(name, kind=LONG, physical=None, number=1):
    keys = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical or f"col-{name}"}
    return StructField(name, kind, metadata=keys)


INNER = StructType((mapped("x"), mapped("y")))
LOGICAL = StructType(
    (
        mapped("id", number=7),
        mapped("Day"),
        mapped("place", INNER),
        mapped("many", ArrayType(INNER)),
        mapped("by_key", MapType(INNER, INNER)),
    )
)
TABLE = TableSchema(logical=LOGICAL, partition_columns=("Day",), mode=MappingMode.NAME)


def test_every_field_at_every_depth_has_its_physical_name_and_keeps_its_metadata():
    inner = StructType((mapped("col-x", physical="col-x"), mapped("col-y", physical="col-y")))
    assert TABLE.physical.names == ("col-id", "col-Day", "col-place", "col-many", "col-by_key")
    assert [f.type for f in TABLE.physical][2:] == [inner, ArrayType(inner), MapType(inner, inner)]
    assert field_id(TABLE.physical.fields[0].metadata) == 7


def test_partition_values_have_physical_names_and_data_files_lack_partition_columns():
    assert TABLE.partition_keys == {"col-Day": "col-Day"}
    assert TABLE.data_columns.names == ("col-id", "col-place", "col-many", "col-by_key")


@pytest.mark.parametrize(
    ("logical", "physical"),
    [
        (("ID",), ("col-id",)),
        (("place", "X"), ("col-place", "col-x")),
        (("nobody",), ("nobody",)),
        (("place", "nobody", "x"), ("col-place", "nobody", "x")),
        (("id", "x"), ("col-id", "x")),
    ],
)
def test_a_path_gets_the_physical_names_of_the_fields_in_the_schema(logical, physical):
    assert TABLE.physical_path(logical) == physical


def test_without_column_mapping_the_physical_schema_is_the_logical_schema():
    unmapped = TableSchema(logical=SCHEMA, partition_columns=("DAY",))
    assert unmapped.physical is SCHEMA
    assert unmapped.physical_path(("Id",)) == ("id",)
    # The keys of partition values in the log have the spelling of the metadata.
    assert unmapped.partition_keys == {"day": "DAY"}


@pytest.mark.parametrize(
    ("mode", "supported", "effective_mode"),
    [
        ("name", True, MappingMode.NAME),
        ("id", True, MappingMode.ID),
        ("none", True, MappingMode.NONE),
        ("name", False, MappingMode.NONE),
    ],
)
def test_a_mode_has_no_effect_without_its_feature(mode, supported, effective_mode):
    table = table_schema(metadata({"delta.columnMapping.mode": mode}), LOGICAL, supports_mapping=supported)
    assert table.mode is effective_mode


def test_an_unknown_mode_is_rejected():
    with pytest.raises(InvalidRequestError, match=r"delta\.columnMapping\.mode"):
        table_schema(metadata({"delta.columnMapping.mode": "magic"}), LOGICAL, supports_mapping=True)


def test_a_mapped_field_without_a_physical_name_raises_a_corrupt_log_error():
    with pytest.raises(CorruptLogError, match="'id' has no physical name"):
        TableSchema(logical=SCHEMA, mode=MappingMode.NAME)


def test_a_missing_partition_column_raises_a_corrupt_log_error():
    with pytest.raises(CorruptLogError, match="partitioned by 'country'"):
        TableSchema(logical=SCHEMA, partition_columns=("country",))


@pytest.mark.parametrize("value", [None, True, "7", 7.0])
def test_a_field_id_that_is_not_an_integer_is_ignored(value):
    assert field_id({"delta.columnMapping.id": value}) is None
