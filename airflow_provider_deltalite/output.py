"""Sorts the output of a job, line by line, into markers, the traceback, the job's own log, and Spark's log.

- A marker line with the nonce of the request is parsed and not logged.
- The traceback with which a job ends is kept, so that it can be logged after all other lines.
- Every other line is logged at the level that the line names. Airflow shows Spark's lines folded, as groups between the
  job's own lines.
- Empty lines, and Spark's lines below a level, are not logged. Airflow's hook still reads Spark's lines, because they
  contain application ids and exit codes. The newest of these lines are kept for the log of a job that fails.

A line may quote untrusted data. So control characters become escapes, commands that begin or end a group lose their
effect, and the module logs a long line in parts.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from deltalite.errors import InvalidRequestError
from deltalite.markers import NO_NONCE, QuestionPart, ResultPart, parse_marker, question_parts, result_parts
from deltalite.requests import AuditQuestion
from deltalite.results import JobError, JobStarted, OperationResult

_TRACEBACK_HEADER = "Traceback (most recent call last):"
_CHAIN_MESSAGES = ("The above exception was the direct cause", "During handling of the above exception")
_MAX_TRACEBACK_LINES = 400
# Spark's default layouts: `26/01/31 10:00:00 INFO SparkContext: ...`, and one that begins with the date in full.
_SPARK_LINE = re.compile(r"\d{2,4}[-/]\d{2}[-/]\d{2}[ T][\d:.,]+\S*\s+\[?(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_JOB_LINE = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (deltalite|py\.warnings)\b")
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
}
BEGIN_OF_GROUP, END_OF_GROUP = "::group::Spark", "::endgroup::"
_GROUP_COMMAND = re.compile(r"::(?=(?:end)?group::)")  # Airflow's UI obeys the command anywhere in a line
# Control characters except tabs, and characters that change the direction of a text or end its line.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_LEVEL_SETTING = "spark.log.level"
_MAX_LINE_CHARACTERS = 16_384
_MAX_OMITTED_LINES = 200
_THRESHOLDS = {
    "ALL": logging.NOTSET,
    "TRACE": logging.NOTSET,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
_CONTINUATION_MARK = " ..."


class JobOutput:
    """Reads the output of one job, and keeps its result, its error and its traceback.

    Args:
        log_line: Logs a line that the job did not print.
        on_start: The object calls it when the job reports its Spark application.
        hidden: Secrets. The log shows stars instead of them.
        nonce: The nonce of the request.
        spark_level: The task's log omits Spark's lines below this level.
    """

    def __init__(
        self,
        log_line: Callable[[str], None],
        on_start: Callable[[JobStarted], None] | None = None,
        hidden: Collection[str] = (),
        *,
        nonce: str = NO_NONCE,
        spark_level: int = logging.NOTSET,
    ) -> None:
        self.result: OperationResult | None = None
        self.error: JobError | None = None
        self.question: AuditQuestion | None = None
        self._log_line = log_line
        self._on_start = on_start
        self._nonce = nonce
        self._result_parts, self._question_parts = result_parts(), question_parts()
        self._spark_level = spark_level
        self._omitted: deque[str] = deque(maxlen=_MAX_OMITTED_LINES)
        self._last_line_is_below_level = False
        self._hidden: list[str] = []
        self.hide(hidden)
        self._has_ended = False
        self._in_group = False
        self._in_traceback = False
        self._traceback: list[str] = []

    def expect_nonce(self, nonce: str) -> None:
        """Read the markers with this nonce from now on."""
        self._nonce = nonce
        self._result_parts, self._question_parts = result_parts(), question_parts()

    def hide(self, secrets: Iterable[str]) -> None:
        """Replace these secrets by stars in the log."""
        # A secret may begin with another secret, so the longest secret is replaced first.
        self._hidden = sorted({*self._hidden, *secrets}, key=len, reverse=True)

    @property
    def traceback(self) -> str | None:
        """The traceback of the error that ended the job. None if the job reported no error or printed no traceback."""
        if self.error is None:
            return None
        return "\n".join(self._traceback).rstrip() or None

    @property
    def omitted_lines(self) -> str:
        """The newest lines of Spark's log that the task's log omits."""
        return "\n".join(self._omitted)

    def omits(self, text: str) -> bool:
        """Whether the task's log omits `text`, which must be the last line that `to_log` has yielded."""
        return self._last_line_is_below_level and text.strip() == self._omitted[-1].strip()

    def to_log(self, lines: Iterable[Any], *, has_ended: bool = False) -> Iterator[Any]:
        """Yield the lines for Airflow's hook, which logs those for which `omits` is false.

        `has_ended` says that the job has ended, so its Spark web page no longer exists.
        """
        self._has_ended = has_ended
        for line in lines:
            yield from map(self._group_or_omit, self._read(line.rstrip("\r\n")))
        yield from map(self._group_or_omit, self._take_traceback() if self.error is None else ())
        self._close_group()

    def _group_or_omit(self, line: str) -> str:
        """Open or close a group for the line, or keep the line as omitted. Return the line.

        A line that begins with white space continues the line before it.
        """
        if match := _SPARK_LINE.match(line):
            self._last_line_is_below_level = _LEVELS[match[1]] < self._spark_level
        elif not line[:1].isspace():
            self._last_line_is_below_level = False
        if self._last_line_is_below_level:
            self._omitted.append(line)
        else:
            self._open_or_close_group(line)
        return line

    def _read(self, line: str) -> list[str]:
        """Read the next line of output, and return the lines to log now.

        1. A marker: keep its content. Before the marker of an error, keep the traceback. Before the marker of a result,
           log the traceback, because its error did not end the job.
        2. A line of Spark's log: log it. It may stand inside a traceback.
        3. The first line of a traceback: log the traceback before it, unless this one is chained to it.
        4. Another line of a traceback: keep it. If the traceback becomes too long, log all of it now. If no marker of
           an error follows, the traceback is logged at the end.
        5. Any other line: log it.
        """
        match parse_marker(line, self._nonce):
            case JobError() as error:
                self.error = replace(error, message=self._mask(error.message), remedy=self._mask(error.remedy))
                self._in_traceback = False
                return []
            case OperationResult() as result:
                self.result = result
                return self._take_traceback()
            case QuestionPart() as part:
                question = self._question_parts.add(part)
                self.question = self.question if question is None else question.with_texts(self._mask)
                return []
            case ResultPart() as part:
                self.result = self._result_parts.add(part) or self.result
                return self._take_traceback()
            case JobStarted() as job:
                if self._on_start is not None:
                    self._on_start(replace(job, ui_url=None) if self._has_ended else job)
                return []
        line = escape_line(self._mask(line))
        if _SPARK_LINE.match(line):
            return [line]
        if line == _TRACEBACK_HEADER:
            previous_traceback = [] if self._is_chained() else self._take_traceback()
            self._in_traceback = True
            self._traceback.append(line)
            return previous_traceback
        if not self._in_traceback:
            return [line] if line.strip() else []
        self._traceback.append(line)
        return self._take_traceback() if len(self._traceback) > _MAX_TRACEBACK_LINES else []

    def _mask(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return text

    def _is_chained(self) -> bool:
        lines = [line for line in self._traceback if line.strip()]
        return bool(lines) and lines[-1].startswith(_CHAIN_MESSAGES)

    def _take_traceback(self) -> list[str]:
        """Return the lines of a traceback that did not end the job, and forget them."""
        lines, self._traceback, self._in_traceback = self._traceback, [], False
        return lines

    def _open_or_close_group(self, line: str) -> None:
        if _JOB_LINE.match(line):
            self._close_group()
        elif not self._in_group:
            self._log_line(BEGIN_OF_GROUP)
            self._in_group = True

    def _close_group(self) -> None:
        if self._in_group:
            self._log_line(END_OF_GROUP)
            self._in_group = False


def bounded_lines(lines: Iterator[Any]) -> Iterator[Any]:
    """Yield the lines of a stream in parts of bounded length, so that a long line never fills the memory.

    A part that continues a line is indented, so that it is never parsed as a marker. The lines of an iterator that is
    not a stream are yielded unchanged.
    """
    read_part = getattr(lines, "readline", None)
    if read_part is None:
        yield from lines
        return
    prefix = ""
    while part := read_part(_MAX_LINE_CHARACTERS):
        is_whole = part.endswith("\n")
        yield prefix + part if is_whole else prefix + part + _CONTINUATION_MARK
        prefix = "" if is_whole else _CONTINUATION_MARK.rjust(8)


def escape_line(line: str) -> str:
    """Escape control characters, and make commands that begin or end a group ineffective."""
    line = _CONTROL_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], line)
    return _GROUP_COMMAND.sub(": :", line)


def level_of(line: str) -> int:
    """Return the log level that a line of output names; INFO if it names none."""
    match = _SPARK_LINE.match(line) or _JOB_LINE.match(line)
    return _LEVELS[match[1]] if match else logging.INFO


def spark_log_level(conf: Mapping[str, Any]) -> int:
    """Return the lowest level at which the task's log shows Spark's lines, as a number of Python's `logging`.

    Args:
        conf: The task's settings of Spark. Without `spark.log.level`, Airflow's setting applies.

    Raises:
        InvalidRequestError: Spark has no such level.
    """
    from airflow.providers.common.compat.sdk import conf as airflow_settings

    default = airflow_settings.get("deltalite", "spark_log_level", fallback="WARN")
    return spark_threshold(str(conf.get(_LEVEL_SETTING) or default))


def spark_threshold(name: str) -> int:
    """Return the lowest level at which Spark's lines are logged, as a number of Python's `logging`.

    Args:
        name: The name of a level, as `spark.log.level` takes it.

    Raises:
        InvalidRequestError: Spark has no such level.
    """
    try:
        return _THRESHOLDS[name.strip().upper()]
    except KeyError:
        raise InvalidRequestError(
            f"Spark has no log level '{name}'.",
            remedy=f"Set `[deltalite] spark_log_level`, or `spark.log.level` in `conf`, to one of "
            f"{', '.join(_THRESHOLDS)}.",
        ) from None


class LevelledLog:
    """A logger that logs a line of output at the level that the line names. Airflow's hook logs every line at INFO.

    It leaves out a message for which `omits` is true. It logs a message with the same arguments only once, because
    Airflow's hook reports the application again for each line that names the application.
    """

    def __init__(self, log: logging.Logger, omits: Callable[[str], bool]) -> None:
        self._log = log
        self._omits = omits
        self._reported: set[tuple[object, ...]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at the level that the message names."""
        if args:
            if (msg, *args) in self._reported:
                return
            self._reported.add((msg, *args))
        if not self._omits(str(msg)):
            self._log.log(level_of(str(msg)), msg, *args, **kwargs)
