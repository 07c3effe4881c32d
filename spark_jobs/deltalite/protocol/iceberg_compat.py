"""Iceberg compatibility V1 and V2: the rules of a table that can share its data files with an Iceberg table.

The rules concern the schema, the properties and the data files: field ids through column mapping, partition columns in
the files, and the number of rows in the log. No rule asks a writer for Iceberg metadata. Engines with UniForm create it
from the log.

Under V2 the elements of arrays and the keys and values of maps have field ids too, in the schema and in the Parquet
files. Spark's Parquet writer cannot write them, so this release writes no data file of a V2 table with arrays or maps.

Protocol: Iceberg Compatibility V1, Iceberg Compatibility V2, Writer Requirements for Type Widening; delta-spark:
IcebergCompat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from deltalite.errors import InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.column_mapping import NESTED_IDS
from deltalite.protocol.features import is_in_force, supported_features
from deltalite.protocol.properties import (
    COLUMN_MAPPING_MODE,
    ENABLE_DELETION_VECTORS,
    ENABLE_ICEBERG_COMPAT_V1,
    ENABLE_ICEBERG_COMPAT_V2,
    Property,
)
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    parse_schema,
)
from deltalite.protocol.type_changes import INTEGERS, recorded_changes

VERSION_TAG = "ICEBERG_COMPAT_VERSION"
"""The tag of a data file with its version of Iceberg compatibility.

delta-spark's REORG rewrites the files that lack the tag.
"""
_UNIFORM_FORMATS = "delta.universalFormat.enabledFormats"
_V2_TYPES = frozenset({
    "byte", "short", "integer", "long", "float", "double", "string", "binary", "boolean", "timestamp", "timestamp_ntz",
    "date",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompat:
    """A version of Iceberg compatibility: its table feature, and the property that enables it."""

    version: int
    feature: str
    property: Property[bool]


V1 = IcebergCompat(version=1, feature="icebergCompatV1", property=ENABLE_ICEBERG_COMPAT_V1)
V2 = IcebergCompat(version=2, feature="icebergCompatV2", property=ENABLE_ICEBERG_COMPAT_V2)


def active_iceberg_compat(protocol: Protocol, metadata: Metadata) -> IcebergCompat | None:
    """Return the active version; None if no version is active. `check_iceberg_compat` rejects two active versions."""
    return next((compat for compat in (V2, V1) if is_in_force(compat.feature, protocol, metadata)), None)


def may_have_iceberg_metadata(configuration: Mapping[str, str]) -> bool:
    """Whether another engine may keep Iceberg metadata in the table's folder `metadata`."""
    formats = configuration.get(_UNIFORM_FORMATS, "").lower()
    return "iceberg" in formats or any(compat.property.of(configuration) for compat in (V1, V2))


def with_column_mapping(metadata: Metadata) -> Metadata:
    """Return the metadata of a new table with column mapping by name, if it enables a version and sets no mode."""
    is_enabled = any(compat.property.of(metadata.configuration) for compat in (V1, V2))
    if not is_enabled or COLUMN_MAPPING_MODE.key in metadata.configuration:
        return metadata
    return replace(metadata, configuration={**metadata.configuration, COLUMN_MAPPING_MODE.key: "name"})


def file_tags(protocol: Protocol, metadata: Metadata) -> dict[str, str] | None:
    """Return the tags of new data files, None if there are none. V1 has no tag."""
    return {VERSION_TAG: "2"} if active_iceberg_compat(protocol, metadata) is V2 else None


def check_iceberg_compat(protocol: Protocol, metadata: Metadata) -> None:
    """Check the schema and the properties of a table by the rules of its active version.

    Raises:
        InvalidRequestError: a property or feature of the table contradicts the version.
        SchemaMismatchError: a column has a type or a type change that the version does not allow.
        UnsupportedFeatureError: a column with arrays or maps has no field ids for its elements, keys and values.
    """
    compat = active_iceberg_compat(protocol, metadata)
    if compat is None:
        return
    if is_in_force(V1.feature, protocol, metadata) and is_in_force(V2.feature, protocol, metadata):
        raise InvalidRequestError(
            f"The table properties {V1.property.key} and {V2.property.key} are both true.",
            remedy="Enable only one of them.",
        )
    if COLUMN_MAPPING_MODE.of(metadata.configuration) == "none":
        raise InvalidRequestError(
            f"{compat.feature} needs column mapping, and {COLUMN_MAPPING_MODE.key} is 'none'.",
            remedy=f"Set {COLUMN_MAPPING_MODE.key} to 'name', or unset {compat.property.key}.",
        )
    _check_has_no_deletion_vectors(compat, protocol, metadata)
    schema = parse_schema(metadata.schema_string)
    _check_types(compat, schema)
    _check_type_changes(compat, schema)


def newly_active_version(before: IcebergCompat | None, protocol: Protocol, metadata: Metadata) -> IcebergCompat | None:
    """Return the active version if it differs from `before`, the version that was active; None otherwise."""
    compat = active_iceberg_compat(protocol, metadata)
    return None if compat is before else compat


def refuse_existing_files(compat: IcebergCompat) -> NoReturn:
    """Refuse to enable the version in a table that keeps its data files.

    Raises:
        InvalidRequestError: always; the files were written without the rules of the version.
    """
    raise InvalidRequestError(
        f"{compat.property.key} cannot become true: the table has data files that were written without the rules of "
        f"{compat.feature}.",
        remedy="Write all rows again with mode='overwrite', overwrite_schema=True and the property. Or use "
        "REORG TABLE … APPLY (UPGRADE UNIFORM …) of delta-spark 4.4.",
    )


def check_partition_columns(before: Metadata, protocol: Protocol, metadata: Metadata) -> None:
    """Check that a partitioned table keeps its partition columns, if a version is active from now on.

    Raises:
        InvalidRequestError: `metadata` has other partition columns than `before`.
    """
    compat = active_iceberg_compat(protocol, metadata)
    if compat is not None and before.partition_columns and before.partition_columns != metadata.partition_columns:
        raise InvalidRequestError(
            f"The partition columns of the table cannot change from ({', '.join(before.partition_columns)}) to "
            f"({', '.join(metadata.partition_columns)}): {compat.feature} does not allow it.",
            remedy="Keep the partition columns, or write to a new table.",
        )


def check_writes_data_files(protocol: Protocol, metadata: Metadata) -> None:
    """Check that this release can write data files of the table.

    Raises:
        UnsupportedFeatureError: the files would need field ids for elements, keys or values.
    """
    if active_iceberg_compat(protocol, metadata) is V2:
        _refuse_arrays_and_maps(all_fields(parse_schema(metadata.schema_string)))


def _check_has_no_deletion_vectors(compat: IcebergCompat, protocol: Protocol, metadata: Metadata) -> None:
    if "deletionVectors" not in supported_features(protocol):
        return
    if ENABLE_DELETION_VECTORS.of(metadata.configuration):
        raise InvalidRequestError(
            f"{compat.feature} does not allow deletion vectors, and {ENABLE_DELETION_VECTORS.key} is true.",
            remedy=f"Set {ENABLE_DELETION_VECTORS.key} to 'false', or unset {compat.property.key}.",
        )
    if compat is V1:
        raise InvalidRequestError(
            "icebergCompatV1 does not allow the table feature deletionVectors in the protocol of a table.",
            remedy=f"Enable {V2.property.key} instead, which only requires that deletion vectors are disabled.",
        )


def _check_types(compat: IcebergCompat, schema: StructType) -> None:
    for field in all_fields(schema):
        rejected_type = next((t for t in _types_outside_structs(field.type) if not _is_allowed(compat, t)), None)
        if rejected_type is not None:
            raise SchemaMismatchError(
                f"The column '{field.name}' has the type {rejected_type}, which {compat.feature} does not allow.",
                remedy=f"Cast the column to another type, leave it out, or unset {compat.property.key}.",
            )
    if compat is V2:
        _refuse_arrays_and_maps(field for field in all_fields(schema) if not field.metadata.get(NESTED_IDS))


def _types_outside_structs(data_type: DataType) -> Iterable[DataType]:
    """Yield a type, and the types of its elements, keys and values, down to structs."""
    yield data_type
    match data_type:
        case ArrayType(element):
            yield from _types_outside_structs(element)
        case MapType(key, value):
            yield from _types_outside_structs(key)
            yield from _types_outside_structs(value)


def _is_allowed(compat: IcebergCompat, data_type: DataType) -> bool:
    match data_type:
        case ArrayType() | MapType():
            return compat is V2
        case PrimitiveType(name):
            return name in _V2_TYPES if compat is V2 else name != "void"
        case StructType() | DecimalType():
            return True


def _refuse_arrays_and_maps(fields: Iterable[StructField]) -> None:
    """Raise `UnsupportedFeatureError` for the first of the fields that is an array or a map, if there is one."""
    field = next((f for f in fields if isinstance(f.type, ArrayType | MapType)), None)
    if field is not None:
        raise UnsupportedFeatureError(
            f"The column '{field.name}' has the type {field.type}. Under icebergCompatV2, its elements, keys and "
            "values need field ids in the data files, and this release does not write them.",
            remedy="Write the table with delta-spark 4.4, or replace the column by columns of simple types or structs.",
        )


def _check_type_changes(compat: IcebergCompat, schema: StructType) -> None:
    for path, old, new in recorded_changes(schema):
        if not _is_promotion(old, new):
            raise SchemaMismatchError(
                f"The type of the column '{path}' changes from {old} to {new}, which {compat.feature} does not allow: "
                "Iceberg has no such type promotion.",
                remedy=f"Keep the type {old}: a write can cast its values. Or unset {compat.property.key}.",
            )


def _is_promotion(old: DataType, new: DataType) -> bool:
    """Whether Iceberg V2 allows a type change that Delta allows. Iceberg: Schema Evolution."""
    match old, new:
        case PrimitiveType(old_name), PrimitiveType(new_name):
            return {old_name, new_name} <= set(INTEGERS) or (old_name, new_name) == ("float", "double")
        case DecimalType(_, old_scale), DecimalType(_, new_scale):
            return old_scale == new_scale
        case _:
            return False
