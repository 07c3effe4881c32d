"""The actions of a commit as values, and their JSON.

Each class is one action of the protocol; the `json` metadata of a field is its key in the log. Unknown keys are kept in
`unknown` and written back, so that the fields of newer writers are preserved. Parsing checks the types that the
protocol requires, and raises `CorruptLogError` with the file and the key. Actions of unknown kinds are ignored, as the
protocol's evolution rules require. Protocol: Actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from io import BytesIO
from typing import Any, ClassVar, TypeVar

from deltalite.errors import CorruptLogError

_REMEDY = "Restore the file from a backup, or repair the log with the engine that wrote it."
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1
_TEXT = (str,)
_TEXT_OR_NULL = (str, type(None))


def _key(
    json_key: str, *types: type, items: tuple[type, ...] | None = None, largest: int = _LARGEST_LONG, **options: Any
) -> Any:
    """Return a dataclass field for a key of an action.

    Args:
        json_key: the key in the log.
        types: the Python types of the value.
        items: the types of the elements of a list or the values of a map.
        largest: the largest integer; the smallest is its negative.
        options: arguments of `dataclasses.field`, such as the default.
    """
    return field(metadata={"json": json_key, "types": types, "items": items, "largest": largest}, **options)


def _unknown() -> Any:
    return field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The versions and features that a reader and a writer must support. Protocol: Protocol Evolution."""

    action: ClassVar[str] = "protocol"
    min_reader_version: int = _key("minReaderVersion", int, largest=_LARGEST_INT)
    min_writer_version: int = _key("minWriterVersion", int, largest=_LARGEST_INT)
    reader_features: tuple[str, ...] | None = _key("readerFeatures", list, items=_TEXT, default=None)
    writer_features: tuple[str, ...] | None = _key("writerFeatures", list, items=_TEXT, default=None)
    unknown: Mapping[str, Any] = _unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The table's identity, schema, partitioning and properties. Protocol: Change Metadata."""

    action: ClassVar[str] = "metaData"
    id: str = _key("id", str)
    schema_string: str = _key("schemaString", str)
    partition_columns: tuple[str, ...] = _key("partitionColumns", list, items=_TEXT)
    configuration: Mapping[str, str] = _key("configuration", dict, items=_TEXT_OR_NULL, default_factory=dict)
    format: Mapping[str, Any] = _key("format", dict, default_factory=lambda: {"provider": "parquet", "options": {}})
    name: str | None = _key("name", str, default=None)
    description: str | None = _key("description", str, default=None)
    created_time_ms: int | None = _key("createdTime", int, default=None)
    unknown: Mapping[str, Any] = _unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile:
    """The addition of a file to the table. `path` is as in the log: relative or absolute, URI-encoded.

    Protocol: Add File and Remove File.
    """

    action: ClassVar[str] = "add"
    path: str = _key("path", str)
    partition_values: Mapping[str, str | None] = _key("partitionValues", dict, items=_TEXT_OR_NULL)
    size_bytes: int = _key("size", int)
    modification_time_ms: int = _key("modificationTime", int)
    data_change: bool = _key("dataChange", bool)
    stats: str | None = _key("stats", str, default=None)
    tags: Mapping[str, str | None] | None = _key("tags", dict, items=_TEXT_OR_NULL, default=None)
    deletion_vector: Mapping[str, Any] | None = _key("deletionVector", dict, default=None)
    base_row_id: int | None = _key("baseRowId", int, default=None)
    default_row_commit_version: int | None = _key("defaultRowCommitVersion", int, default=None)
    clustering_provider: str | None = _key("clusteringProvider", str, default=None)
    unknown: Mapping[str, Any] = _unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """The removal of a file from the table. Protocol: Add File and Remove File."""

    action: ClassVar[str] = "remove"
    path: str = _key("path", str)
    data_change: bool = _key("dataChange", bool)
    deletion_timestamp_ms: int | None = _key("deletionTimestamp", int, default=None)
    extended_file_metadata: bool | None = _key("extendedFileMetadata", bool, default=None)
    partition_values: Mapping[str, str | None] | None = _key("partitionValues", dict, items=_TEXT_OR_NULL, default=None)
    size_bytes: int | None = _key("size", int, default=None)
    stats: str | None = _key("stats", str, default=None)
    tags: Mapping[str, str | None] | None = _key("tags", dict, items=_TEXT_OR_NULL, default=None)
    deletion_vector: Mapping[str, Any] | None = _key("deletionVector", dict, default=None)
    base_row_id: int | None = _key("baseRowId", int, default=None)
    default_row_commit_version: int | None = _key("defaultRowCommitVersion", int, default=None)
    unknown: Mapping[str, Any] = _unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCDCFile:
    """A file of changed rows, which is never part of a snapshot. Protocol: Add CDC File."""

    action: ClassVar[str] = "cdc"
    path: str = _key("path", str)
    partition_values: Mapping[str, str | None] = _key("partitionValues", dict, items=_TEXT_OR_NULL)
    size_bytes: int = _key("size", int)
    data_change: bool = _key("dataChange", bool)
    tags: Mapping[str, str | None] | None = _key("tags", dict, items=_TEXT_OR_NULL, default=None)
    unknown: Mapping[str, Any] = _unknown()


SOURCE_OFFSET_PREFIX = "deltalite-flow/"
"""The prefix of the app ids of source offsets; see `txn.flows`."""
LOADED_FILES_APP_ID = "deltalite-copy/files"
"""The app id of the transaction that names the manifest of the loaded files; see `loaded_files.manifest`."""
NOTHING_LOADED = -1
"""The version of a source offset, or of `LOADED_FILES_APP_ID`, after a reset or a restore: nothing is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction:
    """The progress of an application. Protocol: Transaction Identifiers."""

    action: ClassVar[str] = "txn"
    app_id: str = _key("appId", str)
    version: int = _key("version", int)
    last_updated_ms: int | None = _key("lastUpdated", int, default=None)
    unknown: Mapping[str, Any] = _unknown()

    def is_kept(self, expired_until_ms: int) -> bool:
        """Whether the transaction has not expired, because it was updated after `expired_until_ms`.

        A source offset and the record of loaded files never expire. Otherwise a run would load the same rows again.
        Any other transaction without a time counts as expired.
        """
        if self.app_id.startswith(SOURCE_OFFSET_PREFIX) or self.app_id == LOADED_FILES_APP_ID:
            return True
        return self.last_updated_ms is not None and self.last_updated_ms > expired_until_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """A named configuration of a table. Protocol: Domain Metadata."""

    action: ClassVar[str] = "domainMetadata"
    domain: str = _key("domain", str)
    configuration: str = _key("configuration", str)
    removed: bool = _key("removed", bool)
    unknown: Mapping[str, Any] = _unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """The free-form provenance of a commit, with Spark's field names. Protocol: Commit Provenance Information."""

    action: ClassVar[str] = "commitInfo"
    values: Mapping[str, Any] = field(default_factory=dict)


Action = Protocol | Metadata | AddFile | RemoveFile | AddCDCFile | SetTransaction | DomainMetadata | CommitInfo
_T = TypeVar("_T")
_CLASSES: Mapping[str, type[Any]] = {
    cls.action: cls for cls in (Protocol, Metadata, AddFile, RemoveFile, AddCDCFile, SetTransaction, DomainMetadata)
}

_KNOWN_KINDS = frozenset({*_CLASSES, CommitInfo.action, "checkpointMetadata", "sidecar"})


def commit_to_bytes(actions: Iterable[Action]) -> bytes:
    """Return the content of a commit file: one JSON object per line, in the given order."""
    content = BytesIO()
    for action in actions:
        content.write(json.dumps({action.action: to_json(action)}, separators=(",", ":")).encode() + b"\n")
    return content.getvalue()


def iter_raw_actions(data: bytes, source: str, *, first_line: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the raw (kind, body) pairs of a commit file, including unknown kinds.

    A null, and the value of an unknown kind that is not an object, are left out.

    Args:
        data: the content of the file, or a part of it.
        source: the name of the file in errors.
        first_line: the line number of the first line of `data` in the file.

    Raises:
        CorruptLogError: a line is not a JSON object, or the body of a known kind is not an object.
    """
    for number, line in enumerate(data.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            bodies = json.loads(line.decode("utf-8-sig"))  # json.loads would accept invalid characters in bytes
        except (ValueError, RecursionError) as error:
            raise CorruptLogError(f"Line {number} of {source} is not JSON: {error}.", remedy=_REMEDY) from error
        if not isinstance(bodies, dict):
            raise CorruptLogError(f"Line {number} of {source} is not a JSON object.", remedy=_REMEDY)
        for kind, body in bodies.items():
            if body is None:
                continue
            if isinstance(body, dict):
                yield kind, body
            elif kind in _KNOWN_KINDS:
                raise CorruptLogError(f"The {kind} in line {number} of {source} is not an object.", remedy=_REMEDY)


def parse_action(kind: str, body: Mapping[str, Any], source: str) -> Action | None:
    """Return the value of one action, or None for an unknown kind.

    Raises:
        CorruptLogError: see `from_json`.
    """
    if kind == CommitInfo.action:
        return CommitInfo(values=dict(body))
    cls = _CLASSES.get(kind)
    return None if cls is None else from_json(cls, body, source)


def from_json(cls: type[_T], body: Mapping[str, Any], source: str) -> _T:
    """Parse one action from its JSON body; `source` names the file in errors.

    Raises:
        CorruptLogError: a required key is missing, or a value has the wrong type or is out of range.
    """
    action_class: Any = cls  # the classes have different fields, so the constructor call cannot be typed
    keys, rules = _parse_rules(action_class)
    values: dict[str, Any] = {}
    for key, name, types, items, largest, is_required in rules:
        value = body.get(key)
        if value is None:
            if is_required:
                raise CorruptLogError(
                    f"{source} contains an invalid {action_class.action} action: `{key}` is missing.", remedy=_REMEDY
                )
            continue
        if (items is not None or type(value) not in types) and not _is_of_type(value, types, items):
            raise CorruptLogError(
                f"{source} contains an invalid {action_class.action} action: `{key}` is {value!r:.80}, "
                "which has the wrong type.",
                remedy=_REMEDY,
            )
        if type(value) is int and not -largest <= value <= largest:
            raise CorruptLogError(
                f"{source} contains an invalid {action_class.action} action: `{key}` is {value!r:.80}, "
                "which is out of range.",
                remedy=_REMEDY,
            )
        values[name] = tuple(value) if type(value) is list else value
    if not body.keys() <= keys:
        values["unknown"] = {key: value for key, value in body.items() if key not in keys}
    action: _T = action_class(**values)
    return action


_ParseRule = tuple[str, str, tuple[type, ...], tuple[type, ...] | None, int, bool]


@cache
def _parse_rules(cls: type[Any]) -> tuple[frozenset[str], tuple[_ParseRule, ...]]:
    """Return the JSON keys of a class, and the rule of each key.

    A rule is the key, the field, its types, the types of its items, its largest integer, and whether it is required.
    The rules are tuples, created once for each class, because a commit may have a million adds.
    """
    hashable_class: Any = cls
    rules = tuple(
        (
            f.metadata["json"],
            f.name,
            f.metadata["types"],
            f.metadata["items"],
            f.metadata["largest"],
            f.default is MISSING and f.default_factory is MISSING,
        )
        for f in _json_fields(hashable_class)
    )
    return frozenset(rule[0] for rule in rules), rules


def _is_of_type(value: Any, types: tuple[type, ...], items: tuple[type, ...] | None) -> bool:
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    if items is None:
        return True
    elements: Any = value.values() if isinstance(value, dict) else value
    return all(isinstance(element, items) for element in elements)


def to_json(action: Action) -> dict[str, Any]:
    """Return the JSON body of an action, without fields that are None."""
    if isinstance(action, CommitInfo):
        return dict(action.values)
    body: dict[str, Any] = {}
    action_class: Any = type(action)
    for json_field in _json_fields(action_class):
        value = getattr(action, json_field.name)
        if value is None:
            continue
        if isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        body[json_field.metadata["json"]] = value
    return body | dict(action.unknown)


@cache
def _json_fields(cls: type[Any]) -> tuple[Field[Any], ...]:
    return tuple(f for f in fields(cls) if "json" in f.metadata)
