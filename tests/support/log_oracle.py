"""A plain log replay, as the protocol states it: the oracle of the fuzz tests.

It takes the files of a `_delta_log` as bytes and replays them in dictionaries, action by action, oldest first. It uses
no code of the library. A log that breaks the protocol has no reading. Three faults are tolerated, and then the oracle
gives every sensible reading:

- a required field that no row depends on is missing;
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
_SMALL = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
_KINDS = ("add", "remove", "cdc", "commitInfo", *_SMALL)
"""The kinds of actions that the protocol names. A reader ignores all others, whatever their form."""
_VECTOR = {"storageType": str, "pathOrInlineDv": str, "sizeInBytes": 31, "cardinality": 63}
_FIELDS: dict[str, dict[str, Any]] = {  # a type, or the bits of an integer; those of _REQUIRED may not be left out
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
    """The states that a reader may return, best first; empty if no version of the log is readable.

    The best state comes from the newest checkpoint and the compactions after it. Other states come from older
    checkpoints and from commits, in case these files are unreadable.
    """
    commits = {int(m[1]): name for name in files if (m := _COMMIT.fullmatch(name))}
    checkpoints = _checkpoints(files)
    compactions = {(int(m[1]), int(m[2])): name for name in files if (m := _COMPACTION.fullmatch(name)) and files[name]}
    ends = {last for first, last in compactions if last > first}
    target = max((*commits, *ends, *(v for v, _ in checkpoints)), default=-1) if version is None else version
    bases: list[tuple[int, tuple[str, ...]]] = [c for c in checkpoints if c[0] <= target]
    states = []
    for base, names in [*bases, (-1, ())]:
        for used in ({k: n for k, n in compactions.items() if k[1] > k[0]}, {}):
            for order in _ORDERS:
                try:
                    state = _replay(files, names, base, _cover(commits, used, base + 1, target), order)
                except UnreadableError:
                    continue
                if state not in states:
                    states.append(state)
    return states


def _checkpoints(files: dict[str, bytes]) -> list[tuple[int, tuple[str, ...]]]:
    """(version, names) of the complete checkpoints, newest first and then in the library's order of preference."""
    complete: list[tuple[int, int, tuple[str, ...]]] = []
    parts: dict[tuple[int, int], dict[int, str]] = {}
    for name, data in files.items():
        if data and (match := _CHECKPOINT.fullmatch(name)):
            if match[2]:
                parts.setdefault((int(match[1]), int(match[3])), {})[int(match[2])] = name
            elif match[4] or name.endswith("parquet"):
                complete.append((int(match[1]), 2 if match[4] else 0, (name,)))
    for (version, count), names in parts.items():
        if sorted(names) == list(range(1, count + 1)):
            complete.append((version, 1, tuple(names[part] for part in sorted(names))))
    return [(version, names) for version, _, names in sorted(complete, reverse=True)]


def _cover(commits: dict[int, str], compactions: dict[tuple[int, int], str], first: int, last: int) -> list[str]:
    cover = []
    while first <= last:
        end = max((end for start, end in compactions if start == first and end <= last), default=first)
        if end > first:
            cover.append(compactions[first, end])
        elif first in commits:
            cover.append(commits[first])
        else:
            raise UnreadableError(first)
        first = end + 1
    return cover


def _as_written(actions: list[Any]) -> list[Any]:
    return actions


def _first_wins(actions: list[Any]) -> list[Any]:
    """The order in which the first of a commit's actions on one key wins, and an add wins over a remove."""
    newest_first = actions[::-1]
    return sorted(newest_first, key=lambda action: action[0] == "add")


_ORDERS = (_as_written, _first_wins, lambda actions: actions[::-1])


def _replay(
    files: dict[str, bytes], checkpoint: tuple[str, ...], base: int, entries: list[str], order: Any
) -> dict[str, Any]:
    newest: dict[Any, tuple[str, dict[str, Any]]] = {}
    for kind, body in order(_of_checkpoint(files, checkpoint, base)) if checkpoint else ():
        newest[_key(kind, body)] = (kind, body)
    if checkpoint and not {("protocol",), ("metaData",)} <= newest.keys():
        raise UnreadableError("a checkpoint has no protocol or no metadata")
    for name in entries:
        for kind, body in order([a for a in of_json(files[name]) if a[0] in _FIELDS]):
            newest[_key(kind, body)] = (kind, body)
    checked = {key: _checked(kind, body) for key, (kind, body) in newest.items()}
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


def of_json(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a commit, a compaction or a JSON checkpoint."""
    actions = []
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            entry = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise UnreadableError("no JSON") from error
        if not isinstance(entry, dict) or not all(isinstance(entry.get(kind), dict | None) for kind in _KINDS):
            raise UnreadableError("no action")
        actions += [(kind, body) for kind, body in entry.items() if isinstance(body, dict)]
    return actions


def _of_checkpoint(files: dict[str, bytes], names: tuple[str, ...], version: int) -> list[tuple[str, dict[str, Any]]]:
    main = [action for name in names for action in _of_file(files, name)]
    stated = [body.get("version") for kind, body in main if kind == "checkpointMetadata"]
    if stated != [version] and (stated or re.search(r"\.[0-9a-fA-F-]{36}\.", names[0])):
        raise UnreadableError("a checkpoint of another version")
    for kind, body in list(main):
        if kind == "sidecar":
            if not isinstance(body.get("path"), str):
                raise UnreadableError("a sidecar without a path")
            name = f"{LOG}_sidecars/{unquote(body['path']).rpartition('/')[2]}"
            main += [action for action in _of_file(files, name, ()) if action[0] in ("add", "remove")]
    return [action for action in main if action[0] in _FIELDS]


def _of_file(files: dict[str, bytes], name: str, small: tuple[str, ...] = _SMALL) -> list[tuple[str, dict[str, Any]]]:
    if name not in files:
        raise UnreadableError(name)
    return of_json(files[name]) if name.endswith(".json") else of_parquet(files[name], small)


def of_parquet(data: bytes, small: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """The actions of a Parquet file that a table's state needs: adds, and the actions of the kinds in `small`."""
    try:
        with pq.ParquetFile(io.BytesIO(data)) as file:
            schema = file.schema_arrow
            columns = [kind for kind in small if kind in schema.names]
            if "add" in schema.names:
                columns += [f"add.{f.name}" for f in schema.field("add").type if f.name in _FILE_COLUMNS]
            rows = file.read(columns=columns).to_pylist(maps_as_pydicts="strict")
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        raise UnreadableError("no Parquet") from error
    actions = [(kind, body) for row in rows for kind, body in row.items() if body is not None]
    if not all(isinstance(body, dict) for _, body in actions):
        raise UnreadableError("no structs")
    return actions


def _key(kind: str, body: dict[str, Any]) -> tuple[Any, ...]:
    if kind in ("add", "remove"):
        path, vector = body.get("path"), body.get("deletionVector")
        if not isinstance(path, str) or not isinstance(vector, dict | None):
            raise UnreadableError("a file without a path")
        path = unquote(_without_dots(path))
        path = "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:/") else path
        parts = [vector.get(k) for k in ("storageType", "pathOrInlineDv", "offset")] if vector else []
        if any(isinstance(part, dict | list) for part in parts):
            raise UnreadableError("a malformed deletion vector")
        return "file", path, tuple(parts) or None
    name = {"txn": "appId", "domainMetadata": "domain"}.get(kind)
    if name is None:
        return (kind,)
    if not isinstance(body.get(name), str):
        raise UnreadableError(f"a {kind} without {name}")
    return kind, body[name]


def _checked(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    checked = {name: _value(body.get(name), expected) for name, expected in _FIELDS[kind].items()}
    if any(checked[name] is None for name in _REQUIRED[kind]):
        raise UnreadableError(f"a {kind} without a required field")
    vector = body.get("deletionVector")
    if kind in ("add", "remove") and vector is not None:
        for name, expected in {**_VECTOR, "offset": 31}.items():
            _value(vector.get(name), expected)
    return checked


def _value(value: Any, expected: Any) -> Any:
    if value is None or expected is object:
        return value
    if isinstance(expected, int):
        # Readers tolerate a whole number with a decimal point, and Arrow truncates a fraction.
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**expected:
            raise UnreadableError(f"{value!r:.40} is no integer")
        return int(value)
    if not isinstance(value, expected):
        raise UnreadableError(f"{value!r:.40} is no {expected}")
    items = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if not all(isinstance(item, str) or (item is None and isinstance(value, dict)) for item in items):
        raise UnreadableError("not texts")
    return value


def _without_dots(path: str) -> str:
    """Remove empty segments, `.` and `x/..`, as Hadoop normalises a path of the log before it uses it."""
    prefix = _SCHEME_AND_HOST.match(path)[0]
    rest = path[len(prefix) :]
    rest = re.sub("/{2,}", "/", rest)
    before = None
    while before != rest:
        before = rest
        rest = re.sub(r"(^|/)\.(?:/|$)", r"\1", rest, count=1)
        rest = re.sub(r"(^|/)(?!\.\./)[^/]+/\.\.(?:/|$)", r"\1", rest, count=1)
    return prefix + rest
