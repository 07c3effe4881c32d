"""The rules of Iceberg compatibility V1 and V2 on the schema, the properties and the protocol of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol.column_mapping import NESTED_IDS
from deltalite.protocol.iceberg_compat import (
    V1,
    V2,
    active_iceberg_compat,
    check_iceberg_compat,
    check_partition_columns,
    check_writes_data_files,
    file_tags,
    newly_active_version,
    refuse_existing_files,
    with_column_mapping,
)
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from tests.unit.builders import SCHEMA, metadata
from tests.unit.protocol.builders import protocol_with

LONG = PrimitiveType("long")
ARRAY, MAP = ArrayType(LONG), MapType(PrimitiveType("string"), LONG)
BOTH_VERSIONS = pytest.mark.parametrize("compat", [V1, V2], ids=["V1", "V2"])


def protocol_of(*compats, features=()):
    return protocol_with(*(compat.feature for compat in compats), readers=("columnMapping", *features))


def table_metadata(*compats, schema=None, **properties):
    """The metadata of a table with column mapping that enables the versions."""
    enabled = {compat.property.key: "true" for compat in compats}
    more_properties = {key.replace("__", "."): text for key, text in properties.items()}
    return metadata({"delta.columnMapping.mode": "name", **enabled, **more_properties}, schema=schema or SCHEMA)


def column(data_type, **field_metadata):
    return StructType((StructField("id", LONG), StructField("c", data_type, metadata=field_metadata)))


def widened_column(old, new, new_type):
    return column(new_type, **{"delta.typeChanges": [{"fromType": old, "toType": new}]})


@BOTH_VERSIONS
def test_a_version_is_active_if_the_protocol_has_it_and_the_property_enables_it(compat):
    assert active_iceberg_compat(protocol_of(compat), table_metadata(compat)) is compat
    assert active_iceberg_compat(protocol_of(compat), table_metadata()) is None
    assert active_iceberg_compat(protocol_of(), table_metadata(compat)) is None
    assert file_tags(protocol_of(compat), table_metadata(compat)) == (
        {"ICEBERG_COMPAT_VERSION": "2"} if compat is V2 else None
    )


@BOTH_VERSIONS
def test_a_new_table_gets_column_mapping_unless_it_sets_a_mode(compat):
    key = "delta.columnMapping.mode"
    enabled = {compat.property.key: "true"}
    assert with_column_mapping(metadata(enabled)).configuration[key] == "name"
    assert with_column_mapping(metadata({**enabled, key: "id"})).configuration[key] == "id"
    assert with_column_mapping(metadata({compat.property.key: "false"})) == metadata({compat.property.key: "false"})


@pytest.mark.parametrize(
    ("compat", "features", "properties", "problem"),
    [
        (V1, (), {"delta__columnMapping__mode": "none"}, "icebergCompatV1 needs column mapping"),
        (V2, (), {"delta__columnMapping__mode": "none"}, "icebergCompatV2 needs column mapping"),
        (V1, ("deletionVectors",), {}, "the table feature deletionVectors"),
        (V1, ("deletionVectors",), {"delta__enableDeletionVectors": "true"}, "does not allow deletion vectors"),
        (V2, ("deletionVectors",), {"delta__enableDeletionVectors": "true"}, "does not allow deletion vectors"),
    ],
)
def test_a_property_that_contradicts_the_version_is_rejected(compat, features, properties, problem):
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        check_iceberg_compat(protocol_of(compat, features=features), table_metadata(compat, **properties))
    assert caught.value.remedy
    check_iceberg_compat(protocol_of(compat, features=features), table_metadata(**properties))


def test_disabled_deletion_vectors_may_stay_in_the_protocol_under_v2():
    check_iceberg_compat(protocol_of(V2, features=("deletionVectors",)), table_metadata(V2))


def test_two_versions_at_once_are_rejected():
    with pytest.raises(InvalidRequestError, match="are both true"):
        check_iceberg_compat(protocol_of(V1, V2), table_metadata(V1, V2))
    check_iceberg_compat(protocol_of(V1, V2), table_metadata(V2))


@pytest.mark.parametrize(
    ("compat", "data_type", "wrong_type"),
    [
        (V1, ARRAY, "array"),
        (V1, MAP, "map"),
        (V1, StructType((StructField("inner", ARRAY),)), "array"),
        (V1, PrimitiveType("void"), "void"),
        (V2, PrimitiveType("void"), "void"),
        (V2, PrimitiveType("variant"), "variant"),
        (V2, ArrayType(PrimitiveType("variant")), "variant"),
        (V2, MapType(LONG, ArrayType(StructType((StructField("inner", PrimitiveType("variant")),)))), "variant"),
    ],
)
def test_a_column_of_a_type_that_the_version_does_not_allow_is_rejected(compat, data_type, wrong_type):
    with pytest.raises(SchemaMismatchError, match=f"has the type {wrong_type}"):
        check_iceberg_compat(protocol_of(compat), table_metadata(compat, schema=column(data_type)))


@BOTH_VERSIONS
def test_simple_types_and_structs_of_them_are_allowed(compat):
    names = ("byte", "short", "integer", "long", "float", "double", "string", "binary", "boolean", "timestamp",
             "timestamp_ntz", "date")  # fmt: skip
    members = StructType(tuple(StructField(name, PrimitiveType(name)) for name in names))
    schema = StructType((*members.fields, StructField("d", DecimalType(10, 2)), StructField("s", members)))
    check_iceberg_compat(protocol_of(compat), table_metadata(compat, schema=schema))
    check_writes_data_files(protocol_of(compat), table_metadata(compat, schema=schema))


@pytest.mark.parametrize("data_type", [ARRAY, MAP])
def test_arrays_and_maps_of_v2_need_field_ids_and_their_files_are_not_written(data_type):
    schema = column(data_type, **{NESTED_IDS: {"c.element": 7}})
    check_iceberg_compat(protocol_of(V2), table_metadata(V2, schema=schema))
    with pytest.raises(UnsupportedFeatureError, match=r"column 'c'.*does not write them") as caught:
        check_writes_data_files(protocol_of(V2), table_metadata(V2, schema=schema))
    assert "delta-spark 4.4" in caught.value.remedy
    for without_ids in (column(data_type), column(data_type, **{NESTED_IDS: {}})):
        with pytest.raises(UnsupportedFeatureError, match="column 'c'"):
            check_iceberg_compat(protocol_of(V2), table_metadata(V2, schema=without_ids))
    check_writes_data_files(protocol_of(V2), table_metadata(schema=column(data_type)))


@BOTH_VERSIONS
@pytest.mark.parametrize(
    ("old", "new", "new_type", "is_allowed"),
    [
        ("byte", "integer", PrimitiveType("integer"), True),
        ("integer", "long", PrimitiveType("long"), True),
        ("float", "double", PrimitiveType("double"), True),
        ("decimal(8,2)", "decimal(10,2)", DecimalType(10, 2), True),
        ("decimal(8,2)", "decimal(10,3)", DecimalType(10, 3), False),
        ("integer", "double", PrimitiveType("double"), False),
        ("integer", "decimal(12,0)", DecimalType(12, 0), False),
        ("date", "timestamp_ntz", PrimitiveType("timestamp_ntz"), False),
    ],
)
def test_only_the_type_promotions_of_iceberg_are_allowed(compat, old, new, new_type, is_allowed):
    protocol, widened = protocol_of(compat, features=("typeWidening",)), widened_column(old, new, new_type)
    if is_allowed:
        check_iceberg_compat(protocol, table_metadata(compat, schema=widened))
    else:
        with pytest.raises(SchemaMismatchError, match="no such type promotion"):
            check_iceberg_compat(protocol, table_metadata(compat, schema=widened))
    check_iceberg_compat(protocol, table_metadata(schema=widened))


@BOTH_VERSIONS
def test_a_version_is_newly_active_if_another_version_or_none_was_active(compat):
    assert newly_active_version(compat, protocol_of(compat), table_metadata(compat)) is None
    assert newly_active_version(compat, protocol_of(compat), table_metadata()) is None
    for before in (None, V1 if compat is V2 else V2):
        assert newly_active_version(before, protocol_of(compat), table_metadata(compat)) is compat
    with pytest.raises(InvalidRequestError, match=f"{compat.property.key} cannot become true") as caught:
        refuse_existing_files(compat)
    assert "overwrite_schema=True" in caught.value.remedy


@BOTH_VERSIONS
def test_a_partitioned_table_keeps_its_partition_columns(compat):
    before, after = (replace(table_metadata(compat), partition_columns=columns) for columns in (("id",), ("day",)))
    with pytest.raises(InvalidRequestError, match=r"from \(id\) to \(day\)"):
        check_partition_columns(before, protocol_of(compat), after)
    check_partition_columns(before, protocol_of(compat), before)
    check_partition_columns(table_metadata(compat), protocol_of(compat), after)
    check_partition_columns(before, protocol_of(), after)
