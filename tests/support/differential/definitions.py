"""The definition of a table, and the statistics of its files, by logical names.

The two copies of a table may have different physical names, materialized columns and times. A definition leaves these
out, so that equal tables have equal definitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deltalite.protocol.clustering import clustering_columns, logical_paths
from deltalite.protocol.column_mapping import FIELD_ID, NESTED_IDS, PHYSICAL_NAME
from deltalite.protocol.features import supported_features
from deltalite.protocol.properties import is_constraint
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.tables import actions_of

_DIFFERENT_IN_COPIES = (
    "delta.inCommitTimestampEnablement", "delta.rowTracking.materialized", "delta.columnMapping.maxColumnId",
)  # fmt: skip
"""A property may differ between the copies if its name begins with one of these prefixes."""
# delta-spark adds an empty map of nested ids to each column of a table with icebergCompatV2.
_MAPPING_KEYS = (FIELD_ID, PHYSICAL_NAME, NESTED_IDS)


def definition(path: str) -> dict[str, Any]:
    """The schema, the partition and clustering columns, the properties and the features of a table."""
    snapshot = Snapshot.load(LocalLogStore(path))
    protocol = snapshot.protocol
    clustering = clustering_columns(snapshot.domains) if "clustering" in supported_features(protocol) else ()
    return {
        "schema": _without_mapping(json.loads(snapshot.metadata.schema_string)),
        "partition columns": list(snapshot.partition_columns),
        "clustering columns": logical_paths(clustering, snapshot.table_schema),
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
    """The condition of a constraint without blanks, because delta-spark puts a blank between all tokens."""
    return condition.replace(" ", "")


def _without_mapping(value: Any) -> Any:
    """The JSON value of a schema without the metadata of column mapping."""
    if isinstance(value, dict):
        return {key: _without_mapping(member) for key, member in value.items() if key not in _MAPPING_KEYS}
    return [_without_mapping(member) for member in value] if isinstance(value, list) else value


def added_statistics(path: str, version: int) -> dict[str, Any]:
    """The statistics of all files that a version added, combined as if they were one file.

    Columns have their logical names. A column has a statistic if each of the files has it. A bound that is NaN counts
    as missing: this library takes its bounds from Parquet footers, which have no NaN.
    """
    schema = json.loads(Snapshot.load(LocalLogStore(path), version).metadata.schema_string)
    files = [json.loads(add["stats"]) for add in actions_of(path, version)["add"]]
    logical_names = dict(_physical_and_logical_names(schema["fields"]))
    return {
        "rows": sum(file["numRecords"] for file in files),
        "min": _combined(files, "minValues", logical_names, min),
        "max": _combined(files, "maxValues", logical_names, max),
        "nulls": _combined(files, "nullCount", logical_names, sum),
    }


def _combined(
    files: list[dict[str, Any]], statistic: str, logical_names: Mapping[tuple[str, ...], str], combine: Any
) -> dict[str, Any]:
    """One statistic of each column, over all files, by logical name."""
    values_by_name: dict[str, list[Any]] = {}
    for file in files:
        for path, value in _leaf_values(file.get(statistic, {})):
            values_by_name.setdefault(logical_names[path], []).append(value)
    return {
        name: combine(map(_bound, values))
        for name, values in values_by_name.items()
        if len(values) == len(files) and "NaN" not in values
    }


def _bound(value: Any) -> Any:
    """A bound from JSON. The texts `Infinity` and `-Infinity` become numbers."""
    return float(value) if value in ("Infinity", "-Infinity") else value


def _leaf_values(struct: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(path, value) of each value in nested dictionaries."""
    for name, value in struct.items():
        if isinstance(value, dict):
            yield from _leaf_values(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def _physical_and_logical_names(
    fields: list[dict[str, Any]], physical_prefix: tuple[str, ...] = (), logical_prefix: str = ""
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path of physical names, dotted logical name) of each column and each member of a struct."""
    for field in fields:
        path = (*physical_prefix, field["metadata"].get(PHYSICAL_NAME, field["name"]))
        name = f"{logical_prefix}{field['name']}"
        yield path, name
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _physical_and_logical_names(field["type"]["fields"], path, f"{name}.")
