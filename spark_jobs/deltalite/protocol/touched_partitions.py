"""The names of the partitions that a commit touched, as Hive spells them: `day=2026-03-01/country=DE`.

A scheduler that starts work on a partition identifies the partition by such a name. The number and the length of the
names are bounded, because results and events carry them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltalite.errors import DeltaLiteError, encodable_text
from deltalite.protocol.actions import AddFile, Metadata, RemoveFile
from deltalite.protocol.column_mapping import table_schema
from deltalite.protocol.paths import partition_dir, partition_values_of_dir
from deltalite.protocol.schema import parse_schema

MAX_PARTITIONS = 100
LONGEST_NAME = 250
"""The longest partition key that Airflow accepts."""


def changed_partitions(metadata: Metadata, files: Iterable[AddFile | RemoveFile]) -> tuple[str, ...] | None:
    """Name the partitions in which `files` change rows, as `partition_names` does.

    Files without a data change, such as those of OPTIMIZE, do not count.
    """
    return partition_names(metadata, (file.partition_values for file in files if file.data_change))


def partition_names(
    metadata: Metadata, partitions: Iterable[Mapping[str, str | None] | None]
) -> tuple[str, ...] | None:
    """Name partitions, sorted and without repeats; `partitions` are the `partitionValues` of file actions.

    The names have the logical column names, in the order of the table's partition columns. The result is empty if the
    table is not partitioned. The result is None in these cases:

    - The table is not partitioned, but an action has partition values.
    - The schema of a partitioned table is invalid.
    - There are more than `MAX_PARTITIONS` partitions.
    - A name is longer than `LONGEST_NAME`, or cannot be encoded.
    - The partition values of an action are missing, or are not those of the table's partition columns.
    """
    if not metadata.partition_columns:
        return None if any(partitions) else ()
    try:
        # The protocol is not known here, so the keys may be physical or logical names.
        key_maps = [_columns_by_key(metadata, supports_mapping=supports_mapping) for supports_mapping in (True, False)]
    except DeltaLiteError:
        return None
    names: set[str] = set()
    for values in partitions:
        if values is None:
            return None
        columns = next((columns for columns in key_maps if columns.keys() == values.keys()), None)
        if columns is None:
            return None
        name = partition_dir({column: values[key] for key, column in columns.items()})
        names.add(name)
        if len(names) > MAX_PARTITIONS or len(name) > LONGEST_NAME or encodable_text(name) != name:
            return None
    return tuple(sorted(names))


def partition_values_of_name(name: str) -> dict[str, str | None]:
    """Return the column names and values of a partition's name; null and the empty string are both None."""
    return partition_values_of_dir(name)


def _columns_by_key(metadata: Metadata, *, supports_mapping: bool) -> dict[str, str]:
    """Return the logical partition columns by their keys in the log, in the table's order."""
    schema = table_schema(metadata, parse_schema(metadata.schema_string), supports_mapping=supports_mapping)
    return dict(zip(schema.partition_keys.values(), metadata.partition_columns, strict=True))
