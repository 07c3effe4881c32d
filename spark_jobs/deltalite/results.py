"""What a job says back: the result of an operation, and the marker line that carries it over stdout.

A marker line is `prefix checksum json`, at most `MARKER_BYTES` long, because longer lines were seen torn by the JVM's
concurrent logging; what would be longer, as the many metrics of a merge are, is packed (zlib, base64). A line whose
checksum does not match is no marker: the reader then asks the table's log, which holds the same facts. Standard library
only.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

MARKER_BYTES = 900
_RESULT = "DELTALITE-RESULT"
_ERROR = "DELTALITE-ERROR"
_STARTED = "DELTALITE-STARTED"
_MARKER_START = re.compile(rf"({_RESULT}|{_ERROR}) ([0-9a-f]{{8}}) ")
_STARTED_START = re.compile(rf"{_STARTED} ([0-9a-f]{{8}}) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """What an operation did; the dictionary of it is the task's XCom.

    `version` is the one that this run's commit made, also when `skipped`, by an earlier try; None where the table's log
    no longer holds that commit, or where a caller without identity left a table alone. `timestamp` is the commit's own
    clock, in milliseconds UTC; for time travel use the version. `metrics` has Spark's names. `source_versions` says
    which versions of Delta tables were read, by the names of their views.
    """

    table: str
    operation: str
    version: int | None
    read_version: int | None
    committed: bool
    skipped: bool
    app_id: str | None
    txn_version: int | None
    timestamp: int | None
    metrics: Mapping[str, int] = field(default_factory=dict)
    source_versions: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """A plain dictionary that JSON can carry; `source_versions` only where a Delta table was read."""
        values = asdict(self)
        if not self.source_versions:
            del values["source_versions"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        return cls(**values)


def checkpoint_result(table: str, version: int, *, was_there: bool, metrics: Mapping[str, int]) -> OperationResult:
    """What the checkpoint of a version came to; nothing is committed, so no run is recorded."""
    return _uncommitted("CHECKPOINT", table, version, skipped=was_there, metrics=metrics)


def manifest_result(table: str, version: int, *, metrics: Mapping[str, int]) -> OperationResult:
    """What generating the manifests of a version came to; nothing is committed, so no run is recorded."""
    return _uncommitted("GENERATE", table, version, skipped=False, metrics=metrics)


def _uncommitted(
    operation: str, table: str, version: int, *, skipped: bool, metrics: Mapping[str, int]
) -> OperationResult:
    return OperationResult(
        table=table,
        operation=operation,
        version=version,
        read_version=version,
        committed=False,
        skipped=skipped,
        app_id=None,
        txn_version=None,
        timestamp=None,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """The error that ended a job: its class name and as much of its message as the line holds."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """The Spark application of a job, and where its UI is while it runs; None where it has none."""

    application_id: str
    ui_url: str | None


def started_marker(started: JobStarted) -> str:
    """The marker line of a job whose session is open."""
    return _marker(_STARTED, json.dumps(asdict(started), separators=(",", ":")))


def parse_started(line: str) -> JobStarted | None:
    """What the line says of the job's application, or None where it is not a whole marker line of that kind."""
    start = _STARTED_START.search(line)
    if start is None or start[1] != _checksum(text := line[start.end() :].rstrip()):
        return None
    return JobStarted(**json.loads(text))


def result_marker(result: OperationResult) -> str | None:
    """The marker line for `result`, or None where it would be too long even packed: the log then says the same."""
    body = json.dumps(result.as_dict(), separators=(",", ":"))
    lines = (_marker(_RESULT, text) for text in (body, _packed(body)))
    return next((line for line in lines if len(line.encode()) <= MARKER_BYTES), None)


def error_marker(kind: str, message: str) -> str:
    """The marker line for an error; a long message is cut, not lost: the traceback is in the task's log."""
    for keep in range(min(len(message), MARKER_BYTES), -1, -50):
        cut = message if keep >= len(message) else message[:keep] + " ..."
        line = _marker(_ERROR, _error_body(kind, cut))
        if len(line.encode()) <= MARKER_BYTES:
            return line
    return _marker(_ERROR, _error_body(kind, ""))


def parse_marker(line: str) -> OperationResult | JobError | None:
    """What the line says, or None where it is not a whole marker line."""
    for start in _MARKER_START.finditer(line):  # the text of a message may look like a marker too
        prefix, checksum = start.groups()
        text = line[start.end() :].rstrip()
        if checksum == _checksum(text):
            body = json.loads(text if text.startswith("{") else _unpacked(text))
            return OperationResult.from_dict(body) if prefix == _RESULT else JobError(**body)
    return None


def _marker(prefix: str, text: str) -> str:
    return f"{prefix} {_checksum(text)} {text}"


def _error_body(kind: str, message: str) -> str:
    return json.dumps({"kind": kind, "message": message}, separators=(",", ":"))


def _packed(body: str) -> str:
    return b64encode(zlib.compress(body.encode(), 9)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(b64decode(text))


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
