"""The differences between two versions of a table, as values.

`diff` compares two snapshots, in either order of time, and ignores the commits between them. A path and a deletion
vector identify a file. If a path is in both versions with different vectors, its soft-deleted rows changed. The number
of rows comes from statistics and deletion vectors, and is unknown if a file has no statistics. With column mapping,
columns match by id, which distinguishes a rename from a drop and an add. Otherwise columns match by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.log.file_table import bytes_of, deleted_rows_of, key_column, total
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME
from deltalite.protocol.features import supported_features
from deltalite.protocol.paths import canonical_path
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructField, StructType
from deltalite.snapshot import Snapshot

_COLUMNS = ("path", "size", "stats", "deletionVector")
# Column mapping's own metadata keys are not part of the comparison.
_MAPPING_KEYS = frozenset({FIELD_ID, PHYSICAL_NAME})


class ChangeKind(StrEnum):
    """The kind of a difference from the first to the second version."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference, with the values before and after it; None stands for a missing value.

    - `subject`: the path of a column or `order of columns`, the key of a property, or the name of a table feature, of a
      metadata domain, or of a field of the protocol or the metadata.
    - `aspect`: the changed part of a column: type, nullability, comment or metadata. None if the column itself was
      added, removed or renamed, and for all other subjects.
    """

    kind: ChangeKind
    subject: str
    aspect: str | None = None
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesDiff:
    """The files that are only in one version, as tables with the columns path, size, stats and deletionVector.

    `kept` is the number of files in both versions. `vectors_changed` is the number of paths that are both in `added`
    and in `removed`: these files are in both versions, with different deletion vectors.
    """

    added: pa.Table
    removed: pa.Table
    kept: int
    vectors_changed: int

    @property
    def added_bytes(self) -> int:
        """The bytes of the added files."""
        return bytes_of(self.added)

    @property
    def removed_bytes(self) -> int:
        """The bytes of the removed files."""
        return bytes_of(self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsDiff:
    """The number of rows of each version, and of the files that only one version has.

    A number is None if one of its files has no statistics.
    """

    before: int | None
    after: int | None
    in_added_files: int | None
    in_removed_files: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDiff:
    """All differences from `from_version` to `to_version`; a part without differences is an empty tuple."""

    from_version: int
    to_version: int
    files: FilesDiff
    rows: RowsDiff
    schema: tuple[Change, ...]
    properties: tuple[Change, ...]
    protocol: tuple[Change, ...]
    metadata: tuple[Change, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the comparison found no difference."""
        files = self.files.added.num_rows or self.files.removed.num_rows
        return not (files or self.schema or self.properties or self.protocol or self.metadata)


def diff(before: Snapshot, after: Snapshot) -> TableDiff:
    """Return the differences from `before` to `after`.

    Raises:
        CorruptLogError: the log of a snapshot cannot be read.
    """
    old_files, new_files = before.files_with(_COLUMNS), after.files_with(_COLUMNS)
    files = _files_diff(old_files, new_files)
    return TableDiff(
        from_version=before.version,
        to_version=after.version,
        files=files,
        rows=RowsDiff(
            before=live_rows(old_files),
            after=live_rows(new_files),
            in_added_files=live_rows(files.added),
            in_removed_files=live_rows(files.removed),
        ),
        schema=tuple(_schema_changes(before.schema, after.schema)),
        properties=tuple(_value_changes(before.configuration, after.configuration)),
        protocol=tuple(_protocol_changes(before, after)),
        metadata=tuple(_metadata_changes(before, after)),
    )


def live_rows(files: pa.Table) -> int | None:
    """Return the number of rows that are not soft-deleted; None if the statistics of a file do not count records.

    `files` has the columns `stats` and `deletionVector`.
    """
    records = num_records(files["stats"])
    if records.null_count:
        return None
    return total(records) - deleted_rows_of(files)


def _files_diff(old_files: pa.Table, new_files: pa.Table) -> FilesDiff:
    old_keys, new_keys = key_column(old_files), key_column(new_files)
    added = new_files.filter(pc.invert(pc.is_in(new_keys, value_set=pc.unique(old_keys))))
    removed = old_files.filter(pc.invert(pc.is_in(old_keys, value_set=pc.unique(new_keys))))
    added_paths, removed_paths = ({canonical_path(p) for p in files["path"].to_pylist()} for files in (added, removed))
    return FilesDiff(
        added=added,
        removed=removed,
        kept=new_files.num_rows - added.num_rows,
        vectors_changed=len(added_paths & removed_paths),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column, or a field of a struct, with its full path in the schema."""

    path: str
    field: StructField


def _schema_changes(old: StructType, new: StructType) -> Iterator[Change]:
    by_id = _all_have_ids(old) and _all_have_ids(new)
    before, after = (dict(_columns(schema, "", "", by_id=by_id)) for schema in (old, new))
    for identity, column in before.items():
        if identity not in after:
            yield Change(kind=ChangeKind.REMOVED, subject=column.path, before=_format_type(column.field.type))
    for identity, column in after.items():
        if identity not in before:
            yield Change(kind=ChangeKind.ADDED, subject=column.path, after=_format_type(column.field.type))
        else:
            yield from _column_changes(before[identity], column)
    common = [identity for identity in before if identity in after]
    if common != [identity for identity in after if identity in before]:
        old_order, new_order = (
            ", ".join(column.path for column in columns.values() if "." not in column.path)
            for columns in (before, after)
        )
        yield Change(kind=ChangeKind.CHANGED, subject="order of columns", before=old_order, after=new_order)


def _column_changes(old: _Column, new: _Column) -> Iterator[Change]:
    # A rename of a struct changes the paths of its fields too, so only the last names are compared.
    if old.field.name != new.field.name:
        yield Change(kind=ChangeKind.RENAMED, subject=old.path, before=old.path, after=new.path)
    aspects = {
        "type": (_format_type(old.field.type), _format_type(new.field.type)),
        "nullability": (_nullability(old.field), _nullability(new.field)),
        "comment": (old.field.metadata.get("comment"), new.field.metadata.get("comment")),
        "metadata": (_user_metadata(old.field), _user_metadata(new.field)),
    }
    for aspect, (before, after) in aspects.items():
        if before != after:
            yield Change(kind=ChangeKind.CHANGED, subject=new.path, aspect=aspect, before=before, after=after)


def _all_have_ids(schema: StructType) -> bool:
    """Whether column mapping has given each column an id."""
    return bool(schema.fields) and all(FIELD_ID in field.metadata for field in schema)


def _columns(data_type: DataType, prefix: str, parent: str, *, by_id: bool) -> Iterator[tuple[str, _Column]]:
    """Yield each field at every depth, with the key that matches it: its id, or its path in lower case."""
    match data_type:
        case StructType(fields):
            for field in fields:
                path = f"{prefix}{field.name}"
                field_id = field.metadata.get(FIELD_ID) if by_id else None
                identity = f"{parent}{field.name.lower()}" if field_id is None else f"#{field_id}"
                yield identity, _Column(path=path, field=field)
                yield from _columns(field.type, f"{path}.", f"{identity}.", by_id=by_id)
        case ArrayType(element):
            yield from _columns(element, f"{prefix}element.", f"{parent}element.", by_id=by_id)
        case MapType(key, value):
            yield from _columns(key, f"{prefix}key.", f"{parent}key.", by_id=by_id)
            yield from _columns(value, f"{prefix}value.", f"{parent}value.", by_id=by_id)
        case _:
            return


def _format_type(data_type: DataType) -> str:
    """Format the type without the fields of structs, because `_columns` yields these fields separately."""
    match data_type:
        case StructType():
            return "struct"
        case ArrayType(element, contains_null):
            return f"array<{_format_type(element)}{'' if contains_null else ' not null'}>"
        case MapType(key, value, contains_null):
            return f"map<{_format_type(key)},{_format_type(value)}{'' if contains_null else ' not null'}>"
        case _:
            return str(data_type)


def _nullability(field: StructField) -> str:
    return "nullable" if field.nullable else "not null"


def _user_metadata(field: StructField) -> dict[str, Any]:
    return {key: value for key, value in field.metadata.items() if key != "comment" and key not in _MAPPING_KEYS}


def _value_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if key not in new:
            yield Change(kind=ChangeKind.REMOVED, subject=key, before=before)
        elif key not in old:
            yield Change(kind=ChangeKind.ADDED, subject=key, after=after)
        elif before != after:
            yield Change(kind=ChangeKind.CHANGED, subject=key, before=before, after=after)


def _protocol_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = before.protocol, after.protocol
    versions = [
        ("minReaderVersion", old.min_reader_version, new.min_reader_version),
        ("minWriterVersion", old.min_writer_version, new.min_writer_version),
    ]
    for name, old_version, new_version in versions:
        if old_version != new_version:
            yield Change(kind=ChangeKind.CHANGED, subject=name, before=old_version, after=new_version)
    old_features, new_features = supported_features(old), supported_features(new)
    yield from (Change(kind=ChangeKind.ADDED, subject=name) for name in sorted(new_features - old_features))
    yield from (Change(kind=ChangeKind.REMOVED, subject=name) for name in sorted(old_features - new_features))


def _metadata_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    for name, old_value, new_value in (
        ("id", before.metadata.id, after.metadata.id),
        ("name", before.metadata.name, after.metadata.name),
        ("description", before.metadata.description, after.metadata.description),
        ("partitionColumns", list(before.partition_columns), list(after.partition_columns)),
    ):
        if old_value != new_value:
            yield Change(kind=ChangeKind.CHANGED, subject=name, before=old_value, after=new_value)
    old_domains, new_domains = (
        {name: domain.configuration for name, domain in snapshot.domains.items()} for snapshot in (before, after)
    )
    yield from _value_changes(old_domains, new_domains)
