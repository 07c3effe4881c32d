"""Marker lines, which a job prints to report its Spark application, its result or its error to the worker.

A marker line on stdout is `prefix nonce checksum json`. The nonce comes from the request. The parser ignores a line
with another nonce, such as an old marker line that a job prints as part of a text. A marker starts its line and has at
most `MAX_MARKER_BYTES`, because the JVM's concurrent logging can tear longer lines. A longer result, such as that of a
merge, is compressed (zlib, base64). A result with the rows of many tables is split into several lines, its parts. The
parser never raises an error: it returns None for any other line. If no marker arrives, the worker reads the table's
log, which holds the same facts. Standard library only.
"""

from __future__ import annotations

import hmac
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

MAX_MARKER_BYTES = 900
NO_NONCE = "-"
"""The nonce in the marker lines of a job whose request has no nonce. No worker reads the output of such a job."""

_RESULT = "DELTALITE-RESULT"
_ERROR = "DELTALITE-ERROR"
_STARTED = "DELTALITE-STARTED"
_PART = "DELTALITE-PART"
_MARKER_PATTERN = re.compile(rf"({_RESULT}|{_ERROR}|{_STARTED}|{_PART}) (\S+) ([0-9a-f]{{8}}) (\S.*)")
_MAX_UNPACKED_BYTES = 64 * 1024
# The limits of a result in parts.
_PART_CHARACTERS, _MAX_PARTS, _MAX_JOINED_BYTES = 700, 4096, 4 * 1024 * 1024
_APPLICATION_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRange:
    """The versions of an incremental source that one commit of a flow loads.

    - `flow`: the name of the flow.
    - `source_table_id`: the id of the source table.
    - `after_version`: the last version that earlier commits have loaded, which this commit leaves out. None if the
      commit loads the complete snapshot of `to_version`.
    - `to_version`: the last loaded version. It equals `after_version` if there is nothing new.
    """

    flow: str
    source_table_id: str
    after_version: int | None
    to_version: int

    @property
    def is_empty(self) -> bool:
        """Whether the range has no version."""
        return self.after_version == self.to_version

    def __str__(self) -> str:
        if self.after_version is None:
            return f"the snapshot of version {self.to_version}"
        if self.is_empty:
            return f"no version after {self.to_version}"
        return f"versions {self.after_version + 1} to {self.to_version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The result of one audit.

    - `kind`, `on`, `level`: the kind, the scope and the level, as in the request.
    - `measured`: the number of bad rows, the number of rows, the value of the aggregate, or the age in hours. None if
      there is no value, such as the newest value of a column without values.
    - `threshold`: the limits as a text, such as `max_rows=0`.
    - `rows`: the number of rows in the scope, if it was counted.
    - `before`: the number of rows of the version before, if it was counted.
    - `version`: the version of the other table that the audit read, if any.
    - `error`: the reason why SQL of the audit cannot be computed for a row, if so.
    """

    name: str
    kind: str
    on: str
    level: str
    passed: bool
    measured: bool | int | float | str | None
    threshold: str
    rows: int | None = None
    before: int | None = None
    version: int | None = None
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. Optional fields without a value are left out."""
        optional_fields = ("rows", "before", "version", "error")
        return {name: value for name, value in asdict(self).items() if value is not None or name not in optional_fields}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result from the values that `as_dict` returned.

        Raises:
            ValueError, TypeError: the values have another shape.
        """
        result = cls(**values)
        for text in (result.name, result.kind, result.on, result.level, result.threshold):
            _check_type(text, str)
        _check_type(result.passed, bool)
        _check_type(result.measured, bool, int, float, str, None)
        _check_type(result.error, str, None)
        for number in (result.rows, result.before, result.version):
            _check_type(number, int, None)
        return result

    def __str__(self) -> str:
        return f"'{self.name}' ({self.kind} on {self.on}): {self._measured_text}, allowed {self.threshold}"

    @property
    def _measured_text(self) -> str:
        if self.error is not None:
            return f"no value, because the SQL fails for a row ({self.error})"
        if self.measured is None:
            return "no value (no rows, or only NULL)"
        if self.kind == "freshness":
            return f"measured {self.measured} hours"
        if self.kind == "row_count":
            before = "" if self.before is None else f" ({self.before} rows before)"
            return f"measured {self.measured} rows{before}"
        of_rows = "" if self.rows is None or self.kind == "aggregate" else f" of {self.rows} rows"
        return f"measured {self.measured}{of_rows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """The result of an operation; its dictionary is the task's XCom.

    - `version`: the version of this run's commit. If `skipped` is true, an earlier task attempt made that commit. None
      if the log no longer holds the commit, or if a caller without a run identity did not change the table.
    - `timestamp`: the time in the commit's provenance, in milliseconds UTC. Use the version for time travel.
    - `metrics`: the operation metrics, under Spark's names.
    - `source_versions`: the versions of the Delta tables that the operation read, by the names of their views.
    - `out_of_order`: whether runs of later data intervals had changed rows that the operation may have touched.
    - `partitions`: the partitions in which the commit changed rows, in Hive's spelling (`day=2026-03-01/country=DE`).
      None if there are too many, or if they are unknown.
    - `flows`: the versions that the commit loaded from incremental sources, by the names of their views.
    - `skip_reason`: why the operation made no commit, if its sources have nothing new. `skipped` is then true.
    - `tables`: the rows of a maintenance of many tables, as JSON values. `version` is then None.
    - `audits`: the results of the audits, in the order of the request. None if they are unknown, because they did not
      fit into the marker line.
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
    flows: Mapping[str, FlowRange] = field(default_factory=dict)
    skip_reason: str | None = None
    tables: tuple[Mapping[str, Any], ...] = ()
    audits: tuple[AuditResult, ...] | None = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. Optional fields without a value are left out."""
        values = asdict(self)
        for name in ("source_versions", "out_of_order", "flows", "skip_reason", "tables"):
            if not values[name]:
                del values[name]
        if self.tables:
            values["tables"] = list(values["tables"])
        if self.audits:
            values["audits"] = [audit.as_dict() for audit in self.audits]
        elif self.audits is not None:
            del values["audits"]
        if self.partitions is None:
            values["partitions"] = None
        elif self.partitions:
            values["partitions"] = list(self.partitions)
        else:
            del values["partitions"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result from the values that `as_dict` returned."""
        partitions = values.get("partitions", ())
        flows = {name: FlowRange(**flow_range) for name, flow_range in dict(values.get("flows", {})).items()}
        audits = values.get("audits", ())
        return cls(
            **{
                **values,
                "partitions": None if partitions is None else tuple(partitions),
                "flows": flows,
                "tables": tuple(values.get("tables", ())),
                "audits": None if audits is None else tuple(map(AuditResult.from_dict, audits)),
            }
        )


def checkpoint_result(table: str, version: int, *, existed: bool, metrics: Mapping[str, int]) -> OperationResult:
    """Return the result of a checkpoint task. A checkpoint commits nothing, so the result names no run.

    `existed` is True if the version already had a checkpoint; the result is then `skipped`.
    """
    return _result_without_commit("CHECKPOINT", table, version, skipped=existed, metrics=metrics)


def manifest_result(table: str, version: int, *, metrics: Mapping[str, int]) -> OperationResult:
    """Return the result of a manifest generation. A generation commits nothing, so the result names no run."""
    return _result_without_commit("GENERATE", table, version, skipped=False, metrics=metrics)


def check_result(table: str, version: int | None, audits: tuple[AuditResult, ...] | None) -> OperationResult:
    """Return the result of a check. A check commits nothing, so the result names no run.

    `audits` is None if the results of the audits are unknown.
    """
    metrics = {} if audits is None else {"numAudits": len(audits), "numAuditsNotPassed": count_not_passed(audits)}
    result = _result_without_commit("CHECK", table, version, skipped=False, metrics=metrics)
    return replace(result, audits=audits)


def count_not_passed(audits: Iterable[AuditResult]) -> int:
    """Return the number of audits that did not pass."""
    return sum(not audit.passed for audit in audits)


def _result_without_commit(
    operation: str, table: str, version: int | None, *, skipped: bool, metrics: Mapping[str, int]
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
    """The error that ended a job: its class name, and as much of its message as fits into a marker line.

    `remedy` is the end of the message, which states what to do; it is empty if the error has none.
    """

    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """The Spark application of a job, and the address of its UI while it runs; None if it has no UI."""

    application_id: str
    ui_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPart:
    """One of the `count` parts of a compressed result, with its `index` from 0 on."""

    index: int
    count: int
    text: str


class ResultParts:
    """Collects the parts of one result."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}

    def add(self, part: ResultPart) -> OperationResult | None:
        """Add a part, and return the result if all parts are there; None if one is missing or the whole is invalid."""
        self._texts[part.index] = part.text
        if len(self._texts) < part.count:
            return None
        packed = "".join(text for _, text in sorted(self._texts.items()))
        try:
            result = _parse(_RESULT, json.loads(_unpack(packed, _MAX_JOINED_BYTES)))
        except (ValueError, TypeError, KeyError, RecursionError, zlib.error):
            return None
        return result if isinstance(result, OperationResult) else None


def nonce_of(request_json: str) -> str:
    """Return the nonce in the JSON of a request; `NO_NONCE` if the JSON contains no valid nonce or is not an object."""
    try:
        nonce = json.loads(request_json)["nonce"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return NO_NONCE
    return nonce if isinstance(nonce, str) and nonce and nonce.isalnum() else NO_NONCE


def started_marker(started: JobStarted, nonce: str = NO_NONCE) -> str:
    """Return the marker line that reports the Spark application of a job."""
    return _marker(_STARTED, nonce, json.dumps(asdict(started), separators=(",", ":")))


def result_marker(result: OperationResult, nonce: str = NO_NONCE) -> str | None:
    """Return the marker line for `result`, or None if it is too long even when compressed.

    If the partition names or the audits make the line too long, the line leaves them out (`partitions` or `audits` is
    None). Without a line, the worker finds the same facts in the log.
    """
    for variant in _variants(result):
        body = json.dumps(variant.as_dict(), separators=(",", ":"))
        for text in (body, _pack(body)) if len(body) <= _MAX_UNPACKED_BYTES else ():
            line = _marker(_RESULT, nonce, text)
            if len(line.encode()) <= MAX_MARKER_BYTES:
                return line
    return None


def result_markers(result: OperationResult, nonce: str = NO_NONCE) -> list[str]:
    """Return the marker lines for `result`: one line, or the parts of a result with rows of tables, or no line."""
    line = result_marker(result, nonce=nonce)
    if line is not None:
        return [line]
    packed = _pack(json.dumps(result.as_dict(), separators=(",", ":"))) if result.tables else ""
    texts = [packed[start : start + _PART_CHARACTERS] for start in range(0, len(packed), _PART_CHARACTERS)]
    parts = [ResultPart(index=index, count=len(texts), text=text) for index, text in enumerate(texts)]
    return [_marker(_PART, nonce, json.dumps(asdict(part), separators=(",", ":"))) for part in parts]


def _variants(result: OperationResult) -> Iterator[OperationResult]:
    """Yield the result, then the shorter results that a marker line may hold in its place."""
    yield result
    if result.partitions:
        yield replace(result, partitions=None)
    if result.audits:
        yield replace(result, audits=None)
    if result.partitions and result.audits:
        yield replace(result, partitions=None, audits=None)


def error_marker(kind: str, message: str, *, remedy: str = "", nonce: str = NO_NONCE) -> str:
    """Return the marker line for an error. A long message is cut; the task's log holds the whole traceback.

    If the remedy leaves no room for a message, the line leaves the remedy out.
    """
    for included_remedy in dict.fromkeys((remedy, "")):
        for length in range(min(len(message), MAX_MARKER_BYTES), 0, -50):
            cut_message = message if length >= len(message) else message[:length] + " ..."
            line = _marker(_ERROR, nonce, _error_body(kind, cut_message, included_remedy))
            if len(line.encode()) <= MAX_MARKER_BYTES:
                return line
    return _marker(_ERROR, nonce, _error_body(kind, "", ""))


def parse_marker(line: str, nonce: str = NO_NONCE) -> OperationResult | JobError | JobStarted | ResultPart | None:
    """Return the content of a marker line, or None if the line is not a well-formed marker with this nonce."""
    if len(line) > MAX_MARKER_BYTES + 2:  # a line may end in CR and LF
        return None
    match = _MARKER_PATTERN.fullmatch(line.rstrip())
    if match is None:
        return None
    prefix, line_nonce, checksum, text = match.groups()
    if not hmac.compare_digest(line_nonce.encode(), nonce.encode()) or checksum != _checksum(text):
        return None
    try:
        return _parse(prefix, json.loads(text if text.startswith("{") else _unpack(text)))
    except (ValueError, TypeError, KeyError, RecursionError, zlib.error):
        return None


def _parse(prefix: str, body: Mapping[str, Any]) -> OperationResult | JobError | JobStarted | ResultPart:
    """Return the value that the JSON of a marker describes.

    Raises:
        ValueError, TypeError, KeyError: the JSON has another shape.
    """
    if prefix == _RESULT:
        result = OperationResult.from_dict(body)
        _check_result(result)
        return result
    if prefix == _ERROR:
        error = JobError(**body)
        _check_type(error.kind, str)
        _check_type(error.message, str)
        _check_type(error.remedy, str)
        return error
    if prefix == _PART:
        part = ResultPart(**body)
        _check_type(part.index, int)
        _check_type(part.count, int)
        _check_type(part.text, str)
        if not 0 <= part.index < part.count <= _MAX_PARTS:
            raise ValueError(part.index)
        return part
    started = JobStarted(**body)
    _check_type(started.application_id, str)
    _check_type(started.ui_url, str, None)
    if not _APPLICATION_ID_PATTERN.fullmatch(started.application_id):
        raise ValueError(started.application_id)
    return started


def _check_result(result: OperationResult) -> None:
    for text in (result.table, result.operation):
        _check_type(text, str)
    for number in (result.version, result.read_version, result.txn_version, result.timestamp):
        _check_type(number, int, None)
    for flag in (result.committed, result.skipped, result.out_of_order):
        _check_type(flag, bool)
    _check_type(result.app_id, str, None)
    for name in result.partitions or ():
        _check_type(name, str)
    for flow_range in result.flows.values():
        for text in (flow_range.flow, flow_range.source_table_id):
            _check_type(text, str)
        _check_type(flow_range.after_version, int, None)
        _check_type(flow_range.to_version, int)
    _check_type(result.skip_reason, str, None)
    for row in result.tables:
        _check_type(row, dict)
        _check_type(row["table"], str)
        _check_type(row["status"], str)
    for counts in (result.metrics, result.source_versions):
        _check_type(counts, dict)
        for count in counts.values():
            _check_type(count, int)


def _check_type(value: object, *types: type | None) -> None:
    """Raise `TypeError` if the value has none of these types. A boolean does not count as an integer."""
    if type(value) not in types and not (value is None and None in types):
        raise TypeError(f"{value!r} is a {type(value).__name__}")


def _marker(prefix: str, nonce: str, text: str) -> str:
    return f"{prefix} {nonce} {_checksum(text)} {text}"


def _error_body(kind: str, message: str, remedy: str) -> str:
    body = {"kind": kind, "message": message} | ({"remedy": remedy} if remedy else {})
    return json.dumps(body, separators=(",", ":"))


def _pack(body: str) -> str:
    return b64encode(zlib.compress(body.encode(), 9)).decode()


def _unpack(text: str, max_bytes: int = _MAX_UNPACKED_BYTES) -> bytes:
    """Return the bytes that `_pack` packed. Raises `ValueError` if they are incomplete, or more than `max_bytes`."""
    decompressor = zlib.decompressobj()
    body = decompressor.decompress(b64decode(text, validate=True), max_bytes + 1)
    if len(body) > max_bytes or not decompressor.eof:
        raise ValueError(f"The marker unpacks to more than {max_bytes} bytes, or is incomplete.")
    return body


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"
