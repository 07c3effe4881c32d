"""Protocols, metadata and types for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, PrimitiveType, StructField, StructType
from tests.unit.builders import SCHEMA, metadata

WRITER_4_FEATURES = ("appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants")
"""The features that writer version 4 implies."""

PLAIN = metadata()
NTZ = metadata(schema=StructType((StructField("c", ArrayType(PrimitiveType("timestamp_ntz"))),)))
MAPPED = metadata({"delta.columnMapping.mode": "name"})

TYPE_NAMES = [
    "byte", "short", "integer", "long", "float", "double", "decimal3.0", "decimal10.0", "decimal19.0", "decimal12.2",
    "decimal38.18", "string", "binary", "boolean", "date", "timestamp", "timestamp_ntz",
]  # fmt: skip
"""Names for `simple_type`."""


def legacy(reader: int, writer: int) -> Protocol:
    """A protocol with version numbers and without feature lists."""
    return Protocol(min_reader_version=reader, min_writer_version=writer)


def protocol_with(*writer_features: str, readers: Iterable[str] = ()) -> Protocol:
    """A protocol that lists its features. Those in `readers` are in both lists."""
    reader_features = tuple(readers)
    return Protocol(
        min_reader_version=3 if reader_features else 1,
        min_writer_version=7,
        reader_features=reader_features or None,
        writer_features=tuple(dict.fromkeys((*reader_features, *writer_features))),
    )


def metadata_with(kind: Any = "long", **field_metadata: Any) -> Metadata:
    """The metadata of a table with a column `c`. A name in `field_metadata` has `__` for each dot."""
    metadata_of_c = {key.replace("__", "."): value for key, value in field_metadata.items()}
    return metadata(schema=StructType((*SCHEMA.fields, StructField("c", PrimitiveType(kind), metadata=metadata_of_c))))


def simple_type(name: str) -> DataType:
    """A primitive type, or the decimal type of a name such as `decimal12.2`."""
    if name.startswith("decimal"):
        precision, scale = name.removeprefix("decimal").split(".")
        return DecimalType(int(precision), int(scale))
    return PrimitiveType(name)


def struct_of(data_type: DataType, name: str = "c", nullable: bool = True, **field_metadata: Any) -> StructType:
    """A struct with one field."""
    return StructType((StructField(name, data_type, nullable, field_metadata),))
