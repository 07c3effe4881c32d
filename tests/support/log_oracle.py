"""A plain log replay, as the protocol states it: the oracle of the fuzz tests.

The oracle takes the files of a `_delta_log` as bytes, and replays their actions in dictionaries, oldest first. It uses
no code of the library. A log that breaks the protocol has no reading, unless its only faults are the following. For
these three faults, the oracle returns every sensible reading:

- a required field is missing, but no row depends on it;
- a newer action replaces a malformed one;
- a commit names the same file twice.

Protocol: Actions; Action Reconciliation; Checkpoints.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

LOG = "_delta_log/"
_SCHEME_AND_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=/)(?://[^/]*)?|//[^/]+)?")
_COMMIT = re.compile(r"_delta_log/(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"_delta_log/(\d{20})\.checkpoint(?:\.(?:(\d{10})\.(\d{10})|([0-9a-fA-F-]{36})))?\.(?:parquet|json)"
)
_COMPACTION = re.compile(r"_delta_log/(\d{20})\.(\d{20})\.compacted\.json")
_FILE_COLUMNS = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")
_TABLE_KINDS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
"""The kinds of actions in a checkpoint that are not about data files."""
_KINDS = ("add", "remove", "cdc", "commitInfo", *_TABLE_KINDS)
"""The kinds of actions that the protocol names. A reader ignores all others, whatever their form."""
_VECTOR = {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": 31, "cardinality": 63}
# The type of each field that the oracle checks. A number is an integer type with this many bits besides the sign.
_FIELDS: dict[str, dict[str, Any]] = {
    "add": {"path": str, "size": 63, "modificationTime": 63, "stats": str, "baseRowId": 63,
            "defaultRowCommitVersion": 63, "clusteringProvider": str, "partitionValues": dict, "tags": dict},
    "remove": {"path": str, "size": 63, "deletionTimestamp": 63, "partitionValues": dict,
               "extendedFileMetadata": bool, "baseRowId": 63, "defaultRowCommitVersion": 63},
    "protocol": {"minReaderVersion": 31, "minWriterVersion": 31, "readerFeatures": list, "writerFeatures": list},
    "metaData": {"id": str, "schemaString": str, "partitionColumns": list, "configuration": dict, "format": object,
                 "name": str, "description": str, "createdTime": 63},
    "txn": {"appId": str, "version": 63, "lastUpdated": 63},
    "domainMetadata": {"domain": str, "configuration": str, "removed": bool},
}  # fmt: skip
_REQUIRED = {"add": ("path",), "remove": ("path",), "protocol": ("minReaderVersion", "minWriterVersion"),
             "metaData": ("id", "schemaString", "partitionColumns"), "txn": ("appId", "version"),
             "domainMetadata": ("domain", "configuration", "removed")}  # fmt: skip


class UnreadableError(Exception):
    """The bytes are not a valid log."""


def readings(files: dict[str, bytes], version: int | None = None) -> list[dict[str, Any]]:
    """The states of a version, by default the newest, that a reader may return; empty if none is readable.

    The first state is the best one. It comes from the newest checkpoint and the compactions after it. A reader may
    find these files unreadable, so the other states come from older checkpoints and from commits.
    """
    commits = {int(m[1]): name for name in files if (m := _COMMIT.fullmatch(name))}
    checkpoints = _checkpoints(files)
    compactions = {(int(m[1]), int(m[2])): name for name in files if (m := _COMPACTION.fullmatch(name)) and files[name]}
    compactions = {(first, last): name for (first, last), name in compactions.items() if last > first}
    last_versions = (last for _, last in compactions)
    newest = max((*commits, *last_versions, *(v for v, _ in checkpoints)), default=-1)
    target = newest if version is None else version
    usable_checkpoints = [(v, names) for v, names in checkpoints if v <= target]
    states = []
    for base, names in [*usable_checkpoints, (-1, ())]:
        for usable_compactions in (compactions, {}):
            for order in _ORDERS:
                try:
                    log_files = _log_files(commits, usable_compactions, base + 1, target)
                    state = _replay(files, names, base, log_files, order)
                except UnreadableError:
                    continue
                if state not in states:
                    states.append(state)
    return states


def _checkpoints(files: dict[str, bytes]) -> list[tuple[int, tuple[str, ...]]]:
    """(version, names of its files) of each complete checkpoint, the newest version first.

    Among checkpoints of one version, the one that the library prefers comes first.
    """
    complete: list[tuple[int, int, tuple[str, ...]]] = []
    names_by_part: dict[tuple[int, int], dict[int, str]] = {}
    for name, data in files.items():
        if data and (match := _CHECKPOINT.fullmatch(name)):
            if match[2]:
                names_by_part.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = name
            elif match[4] or name.endswith("parquet"):
                complete.append((int(match[1]), 2 if match[4] else 0, (name,)))
    for (version, count), names in names_by_part.items():
        if sorted(names) == list(range(1, count + 1)):
            complete.append((version, 1, tuple(names[part] for part in sorted(names))))
    return [(version, names) for version, _, names in sorted(complete, reverse=True)]


def _log_files(commits: dict[int, str], compactions: dict[tuple[int, int], str], first: int, last: int) -> list[str]:
    """The names of the commits and compactions to replay for the versions from `first` to `last`, in order.

    A compaction takes precedence over commits, and a longer compaction over a shorter one.
    """
    names = []
    version = first
    while version <= last:
        end = max((end for start, end in compactions if start == version and end <= last), default=version)
        if end > version:
            names.append(compactions[version, end])
        elif version in commits:
            names.append(commits[version])
        else:
            raise UnreadableError(f"the commit {version} is missing")
        version = end + 1
    return names


def _written_order(actions: list[Any]) -> list[Any]:
    return actions


def _reversed_with_adds_last(actions: list[Any]) -> list[Any]:
    """The actions in reverse order, with all adds last.

    Of several actions on one key, the one that was written first wins, but an add wins over a remove.
    """
    newest_first = actions[::-1]
    return sorted(newest_first, key=lambda action: action[0] == "add")


# The orders in which a reader may apply the actions of one file. The last action on a key wins.
_ORDERS = (_written_order, _reversed_with_adds_last, lambda actions: actions[::-1])


def _replay(
    files: dict[str, bytes], checkpoint: tuple[str, ...], base: int, log_files: list[str], order: Any
) -> dict[str, Any]:
    """The state after the checkpoint of version `base` and the log files. Raises `UnreadableError`."""
    newest: dict[Any, tuple[str, dict[str, Any]]] = {}
    for kind, body in order(_checkpoint_actions(files, checkpoint, base)) if checkpoint else ():
        newest[_key(kind, body)] = (kind, body)
    if checkpoint and not {("protocol",), ("metaData",)} <= newest.keys():
        raise UnreadableError("a checkpoint has no protocol or no metadata")
    for name in log_files:
        for kind, body in order([action for action in _json_actions(files[name]) if action[0] in _FIELDS]):
            newest[_key(kind, body)] = (kind, body)
    checked = {key: _checked_fields(kind, body) for key, (kind, body) in newest.items()}
    if not {("protocol",), ("metaData",)} <= checked.keys():
        raise UnreadableError("no protocol or no metadata")
    protocol, metadata = checked["protocol",], checked["metaData",]
    return {
        "protocol": [protocol.get(k) for k in ("minReaderVersion", "minWriterVersion")]
        + [sorted(protocol.get(k) or ()) for k in ("readerFeatures", "writerFeatures")],
        "metadata": [metadata.get(k) for k in ("id", "schemaString", "partitionColumns", "name")]
        + [metadata.get("configuration") or {}],
        "txns": {key[1]: body["version"] for key, body in checked.items() if key[0] == "txn"},
        "domains": {
            key[1]: body["configuration"]
            for key, body in checked.items()
            if key[0] == "domainMetadata" and not body["removed"]
        },
        "files": {
            key[1:]: {"partitionValues": body.get("partitionValues") or {}}
            | {k: body.get(k) for k in ("size", "modificationTime")}
            for key, body in checked.items()
            if key[0] == "file" and newest[key][0] == "add"
        },
    }


def _json_actions(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The (kind, body) pairs of a commit, a compaction or a JSON checkpoint."""
    actions = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            action = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise UnreadableError("a line is not JSON") from error
        if not isinstance(action, dict) or not all(isinstance(action.get(kind), dict | None) for kind in _KINDS):
            raise UnreadableError("a line is not an action")
        actions += [(kind, body) for kind, body in action.items() if isinstance(body, dict)]
    return actions


def _checkpoint_actions(
    files: dict[str, bytes], names: tuple[str, ...], version: int
) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a checkpoint, including those of its sidecars."""
    actions = [action for name in names for action in _file_actions(files, name)]
    versions = [body.get("version") for kind, body in actions if kind == "checkpointMetadata"]
    has_uuid = re.search(r"\.[0-9a-fA-F-]{36}\.", names[0])
    if versions != [version] and (versions or has_uuid):
        raise UnreadableError("the metadata of a checkpoint names another version")
    for kind, body in list(actions):
        if kind == "sidecar":
            if not isinstance(body.get("path"), str):
                raise UnreadableError("a sidecar without a path")
            name = f"{LOG}_sidecars/{unquote(body['path']).rpartition('/')[2]}"
            actions += [action for action in _file_actions(files, name, ()) if action[0] in ("add", "remove")]
    return [action for action in actions if action[0] in _FIELDS]


def _file_actions(
    files: dict[str, bytes], name: str, table_kinds: tuple[str, ...] = _TABLE_KINDS
) -> list[tuple[str, dict[str, Any]]]:
    if name not in files:
        raise UnreadableError(f"{name} is missing")
    return _json_actions(files[name]) if name.endswith(".json") else _parquet_actions(files[name], table_kinds)


def _parquet_actions(data: bytes, table_kinds: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a Parquet file that a table's state needs: adds, and the actions of `table_kinds`."""
    try:
        with pq.ParquetFile(io.BytesIO(data)) as file:
            schema = file.schema_arrow
            columns = [kind for kind in table_kinds if kind in schema.names]
            if "add" in schema.names:
                columns += [f"add.{f.name}" for f in schema.field("add").type if f.name in _FILE_COLUMNS]
            rows = file.read(columns=columns).to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        raise UnreadableError("a file is not Parquet") from error
    actions = [(kind, body) for row in rows for kind, body in row.items() if body is not None]
    if not all(isinstance(body, dict) for _, body in actions):
        raise UnreadableError("a column of actions is not a struct")
    return actions


def _key(kind: str, body: dict[str, Any]) -> tuple[Any, ...]:
    """The key of an action: a newer action replaces the older one with the same key."""
    if kind in ("add", "remove"):
        path, vector = body.get("path"), body.get("deletionVector")
        if not isinstance(path, str) or not isinstance(vector, dict | None):
            raise UnreadableError("a file without a path")
        path = unquote(_normalised(path))
        path = "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:/") else path
        vector_fields = [vector.get(k) for k in ("storageType", "pathOrInlineDv", "offset")] if vector else []
        if any(isinstance(field, dict | list) for field in vector_fields):
            raise UnreadableError("a malformed deletion vector")
        return "file", path, tuple(vector_fields) or None
    id_field = {"txn": "appId", "domainMetadata": "domain"}.get(kind)
    if id_field is None:
        return (kind,)
    if not isinstance(body.get(id_field), str):
        raise UnreadableError(f"a {kind} without {id_field}")
    return kind, body[id_field]


def _checked_fields(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The values of a body's fields. Raises `UnreadableError` for a missing field or a value of another type."""
    checked = {name: _checked_value(body.get(name), expected) for name, expected in _FIELDS[kind].items()}
    if any(checked[name] is None for name in _REQUIRED[kind]):
        raise UnreadableError(f"a {kind} without a required field")
    vector = body.get("deletionVector")
    if kind in ("add", "remove") and vector is not None:
        for name, expected in {**_VECTOR, "offset": 31}.items():
            _checked_value(vector.get(name), expected)
    return checked


def _checked_value(value: Any, expected: Any) -> Any:
    """A value of the expected type, or null. Raises `UnreadableError` for a value of another type."""
    if value is None or expected is object:
        return value
    if isinstance(expected, int):
        # Readers tolerate a whole number with a decimal point, and Arrow truncates a fraction.
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**expected:
            raise UnreadableError(f"{value!r:.40} is not an integer of {expected} bits")
        return int(value)
    if not isinstance(value, expected):
        raise UnreadableError(f"{value!r:.40} is not a {expected.__name__}")
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if not all(isinstance(item, str) or (item is None and isinstance(value, dict)) for item in items):
        raise UnreadableError(f"{value!r:.40} has an item that is not a string")
    return value


def _normalised(path: str) -> str:
    """The path without empty segments, `.` and `x/..`. Hadoop normalises the paths of a log like this."""
    scheme_and_host = _SCHEME_AND_HOST.match(path)[0]
    path = path[len(scheme_and_host) :]
    path = re.sub("/{2,}", "/", path)
    previous_path = None
    while previous_path != path:
        previous_path = path
        path = re.sub(r"(^|/)\.(?:/|$)", r"\1", path, count=1)
        path = re.sub(r"(^|/)(?!\.\./)[^/]+/\.\.(?:/|$)", r"\1", path, count=1)
    return scheme_and_host + path
