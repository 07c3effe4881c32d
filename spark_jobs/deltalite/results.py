"""What a job reports to its worker: the marker lines on stdout that carry its application, its result or its error.

A marker line is `prefix nonce checksum json`. The nonce stands in the request, so nothing that a job only quotes (a
header of a CSV file, a column's name) can pass for a marker. A marker begins its line and has at most `MARKER_BYTES`,
because longer lines were seen torn by the JVM's concurrent logging; a longer result, as that of a merge is, is packed
(zlib, base64). Any other line is no marker, and parsing raises nothing: the worker then asks the table's log, which
holds the same facts. Standard library only.
"""

from __future__ import annotations

import hmac
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

MARKER_BYTES = 900
NO_NONCE = "-"
"""The nonce of a job whose request has none, because no worker listens to it."""

_RESULT = "DELTALITE-RESULT"
_ERROR = "DELTALITE-ERROR"
_STARTED = "DELTALITE-STARTED"
_MARKER = re.compile(rf"({_RESULT}|{_ERROR}|{_STARTED}) (\S+) ([0-9a-f]{{8}}) (\S.*)")
_UNPACKED_BYTES = 64 * 1024
_APPLICATION_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """What an operation did; the dictionary of it is the task's XCom.

    `version` is the one that this run's commit made, also when `skipped`, by an earlier try; None where the table's log
    no longer holds that commit, or where a caller without identity left a table alone. `timestamp` is the commit's own
    clock, in milliseconds UTC; for time travel use the version. `metrics` has Spark's names. `source_versions` says
    which versions of Delta tables were read, by the names of their views. `out_of_order` says that runs of later data
    intervals had changed rows that the operation may have touched. `partitions` names the partitions whose rows the
    commit changed, as Hive spells them (`day=2026-03-01/country=DE`); it is None if they are too many or unknown.
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
    out_of_order: bool = False
    partitions: tuple[str, ...] | None = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. An empty `source_versions`, `out_of_order` or `partitions` is left out."""
        values = asdict(self)
        if not self.source_versions:
            del values["source_versions"]
        if not self.out_of_order:
            del values["out_of_order"]
        if self.partitions is None:
            values["partitions"] = None
        elif self.partitions:
            values["partitions"] = list(self.partitions)
        else:
            del values["partitions"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        partitions = values.get("partitions", ())
        return cls(**{**values, "partitions": None if partitions is None else tuple(partitions)})


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
    """The error that ended a job: its class name and as much of its message as the line holds.

    `remedy` is the end of the message, where the error says what to do; else it is empty.
    """

    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """The Spark application of a job, and where its UI is while it runs; None where it has none."""

    application_id: str
    ui_url: str | None


def nonce_of(request_json: str) -> str:
    """The nonce in the JSON of a request; `NO_NONCE` where there is none, or no JSON."""
    try:
        nonce = json.loads(request_json)["nonce"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return NO_NONCE
    return nonce if isinstance(nonce, str) and nonce and nonce.isalnum() else NO_NONCE


def started_marker(started: JobStarted, nonce: str = NO_NONCE) -> str:
    """The marker line of a job whose session is open."""
    return _marker(_STARTED, nonce, json.dumps(asdict(started), separators=(",", ":")))


def result_marker(result: OperationResult, nonce: str = NO_NONCE) -> str | None:
    """Return the marker line for `result`, or None if it is too long even when packed: the log then says the same.

    A line that is too long because of the partitions' names leaves them out (`partitions` is None).
    """
    for variant in (result, replace(result, partitions=None)) if result.partitions else (result,):
        body = json.dumps(variant.as_dict(), separators=(",", ":"))
        for text in (body, _packed(body)) if len(body) <= _UNPACKED_BYTES else ():
            line = _marker(_RESULT, nonce, text)
            if len(line.encode()) <= MARKER_BYTES:
                return line
    return None


def error_marker(kind: str, message: str, *, remedy: str = "", nonce: str = NO_NONCE) -> str:
    """The marker line for an error; a long message is cut, not lost: the traceback is in the task's log."""
    for kept_remedy in dict.fromkeys((remedy, "")):
        for keep in range(min(len(message), MARKER_BYTES), 0, -50):
            cut = message if keep >= len(message) else message[:keep] + " ..."
            line = _marker(_ERROR, nonce, _error_body(kind, cut, kept_remedy))
            if len(line.encode()) <= MARKER_BYTES:
                return line
    return _marker(_ERROR, nonce, _error_body(kind, "", ""))


def parse_marker(line: str, nonce: str = NO_NONCE) -> OperationResult | JobError | JobStarted | None:
    """What the line says, or None where it is not a whole and well-formed marker line with this nonce."""
    if len(line) > MARKER_BYTES + 2:  # a line may end in CR and LF
        return None
    found = _MARKER.fullmatch(line.rstrip())
    if found is None:
        return None
    prefix, said_nonce, checksum, text = found.groups()
    if not hmac.compare_digest(said_nonce.encode(), nonce.encode()) or checksum != _checksum(text):
        return None
    try:
        return _parsed(prefix, json.loads(text if text.startswith("{") else _unpacked(text)))
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error):
        return None


def _parsed(prefix: str, body: Mapping[str, Any]) -> OperationResult | JobError | JobStarted:
    """The value that the JSON of a marker describes. Raises what parsing raises of a body of another shape."""
    match prefix:
        case "DELTALITE-RESULT":
            result = OperationResult.from_dict(body)
            _check_result(result)
            return result
        case "DELTALITE-ERROR":
            error = JobError(**body)
            _check(error.kind, str)
            _check(error.message, str)
            _check(error.remedy, str)
            return error
        case _:
            started = JobStarted(**body)
            _check(started.application_id, str)
            _check(started.ui_url, str, None)
            if not _APPLICATION_ID.fullmatch(started.application_id):
                raise ValueError(started.application_id)
            return started


def _check_result(result: OperationResult) -> None:
    for text in (result.table, result.operation):
        _check(text, str)
    for number in (result.version, result.read_version, result.txn_version, result.timestamp):
        _check(number, int, None)
    for truth in (result.committed, result.skipped):
        _check(truth, bool)
    _check(result.app_id, str, None)
    for name in result.partitions or ():
        _check(name, str)
    for counts in (result.metrics, result.source_versions):
        _check(counts, dict)
        for count in counts.values():
            _check(count, int)


def _check(value: object, *kinds: type | None) -> None:
    """Raise `TypeError` for a value of none of these types; a boolean is no integer here."""
    if type(value) not in kinds and not (value is None and None in kinds):
        raise TypeError(f"{value!r} is a {type(value).__name__}")


def _marker(prefix: str, nonce: str, text: str) -> str:
    return f"{prefix} {nonce} {_checksum(text)} {text}"


def _error_body(kind: str, message: str, remedy: str) -> str:
    body = {"kind": kind, "message": message} | ({"remedy": remedy} if remedy else {})
    return json.dumps(body, separators=(",", ":"))


def _packed(body: str) -> str:
    return b64encode(zlib.compress(body.encode(), 9)).decode()


def _unpacked(text: str) -> bytes:
    """The packed text. Raises `ValueError` for one that unpacks to more than a result has."""
    unpacking = zlib.decompressobj()
    body = unpacking.decompress(b64decode(text, validate=True), _UNPACKED_BYTES + 1)
    if len(body) > _UNPACKED_BYTES or not unpacking.eof:
        raise ValueError(f"The marker unpacks to more than {_UNPACKED_BYTES} bytes, or is cut.")
    return body


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"
