"""The definition of a table, and the statistics of its files, by logical names.

Two copies of a table have different physical names, materialized columns and times. These are left out, so that the
definitions of equal tables are equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deltalite.protocol.column_mapping import FIELD_ID, NESTED_IDS, PHYSICAL_NAME
from deltalite.protocol.properties import is_constraint
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.tables import commit

_DIFFERENT_IN_COPIES = (
    "delta.inCommitTimestampEnablement", "delta.rowTracking.materialized", "delta.columnMapping.maxColumnId",
)  # fmt: skip
# delta-spark adds an empty map of nested ids to each column of a table with icebergCompatV2.
_MAPPING = (FIELD_ID, PHYSICAL_NAME, NESTED_IDS)


def definition(path: str) -> dict[str, Any]:
    """The schema, the partition and clustering columns, the properties and the features of a table."""
    snapshot = Snapshot.load(LocalLogStore(path))
    protocol = snapshot.protocol
    return {
        "schema": _without_mapping(json.loads(snapshot.metadata.schema_string)),
        "partition columns": list(snapshot.partition_columns),
        "properties": {
            key: _without_blanks(text) if is_constraint(key) else text
            for key, text in snapshot.configuration.items()
            if not key.startswith(_DIFFERENT_IN_COPIES)
        },
        "reader features": sorted(protocol.reader_features or ()),
        "writer features": sorted(protocol.writer_features or ()),
        "legacy versions": (protocol.min_reader_version, protocol.min_writer_version),
    }


def _without_blanks(condition: str) -> str:
    """The condition of a constraint without blanks. delta-spark puts a blank between all tokens."""
    return condition.replace(" ", "")


def _without_mapping(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_mapping(member) for key, member in value.items() if key not in _MAPPING}
    return [_without_mapping(member) for member in value] if isinstance(value, list) else value


def added_statistics(path: str, version: int) -> dict[str, Any]:
    """The statistics of the files that a version added, together as if they were one file.

    The names are logical. A column has "min", "max" and "nulls" if each of the files has them. Bounds with a NaN are
    left out, because Parquet footers have none, and this library takes its bounds from them.
    """
    schema = json.loads(Snapshot.load(LocalLogStore(path), version).metadata.schema_string)
    files = [json.loads(add["stats"]) for add in commit(path, version)["add"]]
    names = dict(_leaves(schema["fields"]))
    return {
        "rows": sum(file["numRecords"] for file in files),
        "min": _together(files, "minValues", names, min),
        "max": _together(files, "maxValues", names, max),
        "nulls": _together(files, "nullCount", names, sum),
    }


def _together(files: list[dict[str, Any]], part: str, names: Mapping[tuple[str, ...], str], combine: Any) -> Any:
    values: dict[str, list[Any]] = {}
    for file in files:
        for path, value in _values(file.get(part, {})):
            values.setdefault(names[path], []).append(value)
    return {
        name: combine(map(_number, column))
        for name, column in values.items()
        if len(column) == len(files) and "NaN" not in column
    }


def _number(value: Any) -> Any:
    """A bound, as a number if it is infinite: JSON has no number for it."""
    return float(value) if value in ("Infinity", "-Infinity") else value


def _values(struct: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in struct.items():
        if isinstance(value, dict):
            yield from _values(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def _leaves(
    fields: list[dict[str, Any]], physical: tuple[str, ...] = (), logical: str = ""
) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in fields:
        path = (*physical, field["metadata"].get(PHYSICAL_NAME, field["name"]))
        name = f"{logical}{field['name']}"
        yield path, name
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _leaves(field["type"]["fields"], path, f"{name}.")
