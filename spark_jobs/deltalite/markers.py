"""Marker lines, which a job prints to report its Spark application, its result or its error to the worker.

A marker line on stdout is `prefix nonce checksum json`. The nonce comes from the request. The parser ignores a line
with another nonce, such as an old marker line that a job prints as part of a text. A marker starts its line and has at
most `MAX_MARKER_BYTES`, because the JVM's concurrent logging can tear longer lines. A longer result, such as that of a
merge, is compressed (zlib, base64). If a result with the rows of many tables is still too long, it is split into
several lines, its parts. A question about audits is always split. The parser raises no error: it returns None for any
other line. If the marker of a commit does not arrive, the worker reads the table's log, which holds the same facts
except the phases. Standard library only.
"""

from __future__ import annotations

import hmac
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from deltalite.requests import AuditQuestion
from deltalite.results import JobError, JobStarted, OperationResult, check_field_types, check_type

MAX_MARKER_BYTES = 900
NO_NONCE = "-"
"""The nonce in the marker lines of a job whose request has no nonce. No worker reads the output of such a job."""

_RESULT = "DELTALITE-RESULT"
_ERROR = "DELTALITE-ERROR"
_STARTED = "DELTALITE-STARTED"
_RESULT_PART = "DELTALITE-PART"
_QUESTION_PART = "DELTALITE-QUESTION"
_PREFIXES = rf"{_RESULT}|{_ERROR}|{_STARTED}|{_RESULT_PART}|{_QUESTION_PART}"
_MARKER_PATTERN = re.compile(rf"({_PREFIXES}) (\S+) ([0-9a-f]{{8}}) (\S.*)")
_MAX_UNPACKED_BYTES = 64 * 1024
# The limits of a result or question in parts.
_PART_CHARACTERS, _MAX_PARTS, _MAX_JOINED_BYTES = 700, 4096, 4 * 1024 * 1024
_APPLICATION_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,200}")
_Collected = TypeVar("_Collected")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the `count` parts of compressed JSON, with its `index` from 0 on."""

    index: int
    count: int
    text: str


class ResultPart(Part):
    """A part of a result."""

    __slots__ = ()


class QuestionPart(Part):
    """A part of a question about audits."""

    __slots__ = ()


class Parts(Generic[_Collected]):
    """Collects the parts of one result or question. `create` creates the result or question from its JSON."""

    def __init__(self, create: Callable[[Any], _Collected]) -> None:
        self._create = create
        self._texts: dict[int, str] = {}

    def add(self, part: Part) -> _Collected | None:
        """Add a part. Return the result or question if all parts are there and valid, else None."""
        self._texts[part.index] = part.text
        if len(self._texts) < part.count:
            return None
        packed = "".join(text for _, text in sorted(self._texts.items()))
        try:
            return self._create(json.loads(_unpack(packed, _MAX_JOINED_BYTES)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
            return None


def result_parts() -> Parts[OperationResult]:
    """Return an object that collects the parts of one result."""
    return Parts(_result_of)


def question_parts() -> Parts[AuditQuestion]:
    """Return an object that collects the parts of one question."""
    return Parts(AuditQuestion.from_dict)


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

    A line that would be too long leaves out the phases, the partition names, the audits or several of these
    (`partitions` or `audits` is None).
    """
    for variant in _variants(result):
        body = json.dumps(variant.as_dict(), separators=(",", ":"))
        for text in (body, _pack(body)) if len(body) <= _MAX_UNPACKED_BYTES else ():
            line = _marker(_RESULT, nonce, text)
            if len(line.encode()) <= MAX_MARKER_BYTES:
                return line
    return None


def result_markers(result: OperationResult, nonce: str = NO_NONCE) -> list[str]:
    """Return the marker lines for `result`: one line if it fits, else its parts if it has rows of tables, else none."""
    line = result_marker(result, nonce=nonce)
    if line is not None:
        return [line]
    return _part_markers(_RESULT_PART, result.as_dict(), nonce) if result.tables else []


def question_markers(question: AuditQuestion, nonce: str = NO_NONCE) -> list[str]:
    """Return the marker lines for a question: its parts."""
    return _part_markers(_QUESTION_PART, question.as_dict(), nonce)


def _part_markers(prefix: str, body: Mapping[str, Any], nonce: str) -> list[str]:
    packed = _pack(json.dumps(body, separators=(",", ":")))
    texts = [packed[start : start + _PART_CHARACTERS] for start in range(0, len(packed), _PART_CHARACTERS)]
    parts = [Part(index=index, count=len(texts), text=text) for index, text in enumerate(texts)]
    return [_marker(prefix, nonce, json.dumps(asdict(part), separators=(",", ":"))) for part in parts]


def _variants(result: OperationResult) -> Iterator[OperationResult]:
    """Yield the result, then the shorter results that a marker line may hold in its place."""
    for variant in _variants_with_phases(result):
        yield variant
        if variant.phases:
            yield replace(variant, phases={})


def _variants_with_phases(result: OperationResult) -> Iterator[OperationResult]:
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


def parse_marker(line: str, nonce: str = NO_NONCE) -> OperationResult | JobError | JobStarted | Part | None:
    """Return the content of a marker line, or None if the line is not a well-formed marker with this nonce."""
    if len(line) > MAX_MARKER_BYTES + 2:  # a line may end in CR and LF
        return None
    match = _MARKER_PATTERN.fullmatch(line.rstrip())
    if match is None:
        return None
    prefix, line_nonce, checksum, text = match.groups()
    if not hmac.compare_digest(_bytes_of(line_nonce), _bytes_of(nonce)) or checksum != _checksum(text):
        return None
    try:
        return _parse(prefix, json.loads(text if text.startswith("{") else _unpack(text)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, zlib.error):
        return None


def _parse(prefix: str, body: Mapping[str, Any]) -> OperationResult | JobError | JobStarted | Part:
    """Return the value that the JSON of a marker describes.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: the JSON has another shape.
    """
    if prefix == _RESULT:
        return _result_of(body)
    if prefix == _ERROR:
        error = JobError(**body)
        check_type(error.kind, str)
        check_type(error.message, str)
        check_type(error.remedy, str)
        return error
    if prefix in (_RESULT_PART, _QUESTION_PART):
        part = ResultPart(**body) if prefix == _RESULT_PART else QuestionPart(**body)
        check_type(part.index, int)
        check_type(part.count, int)
        check_type(part.text, str)
        if not 0 <= part.index < part.count <= _MAX_PARTS:
            raise ValueError(part.index)
        return part
    started = JobStarted(**body)
    check_type(started.application_id, str)
    check_type(started.ui_url, str, None)
    if not _APPLICATION_ID_PATTERN.fullmatch(started.application_id):
        raise ValueError(started.application_id)
    return started


def _result_of(body: Mapping[str, Any]) -> OperationResult:
    result = OperationResult.from_dict(body)
    check_field_types(result)
    return result


def _marker(prefix: str, nonce: str, text: str) -> str:
    return f"{prefix} {nonce} {_checksum(text)} {text}"


def _error_body(kind: str, message: str, remedy: str) -> str:
    body = {"kind": kind, "message": message} | ({"remedy": remedy} if remedy else {})
    return json.dumps(body, separators=(",", ":"))


def _pack(body: str) -> str:
    return b64encode(zlib.compress(body.encode(), 9)).decode()


def _unpack(text: str, max_bytes: int = _MAX_UNPACKED_BYTES) -> bytes:
    """Return the bytes that `_pack` packed.

    Raises:
        ValueError: the text is not base64, or the bytes are incomplete or more than `max_bytes`.
        zlib.error: the bytes are not compressed.
    """
    decompressor = zlib.decompressobj()
    body = decompressor.decompress(b64decode(text, validate=True), max_bytes + 1)
    if len(body) > max_bytes or not decompressor.eof:
        raise ValueError(f"The marker unpacks to more than {max_bytes} bytes, or is incomplete.")
    return body


def _checksum(text: str) -> str:
    return f"{zlib.crc32(_bytes_of(text)):08x}"


def _bytes_of(text: str) -> bytes:
    """Return the text in UTF-8. A line of output may hold unpaired surrogates."""
    return text.encode(errors="surrogatepass")
