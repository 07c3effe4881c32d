"""What a job prints, sorted as it comes: its marker lines, its traceback, its own log, and Spark's.

Marker lines with the nonce of the request are remembered and not shown. The traceback with which a job ends is kept
whole, so that it can be logged after everything else. What is left is logged line by line, at the level that the line
itself names; between the job's own lines Spark's stand in groups, which Airflow shows folded. Markers, empty lines
and Spark's lines below a level are left out. Airflow's hook still reads Spark's lines, because it finds the ids of
applications and exit codes in them, and the newest are kept for the log of a job that fails. A line may quote data of
others, so characters that steer a terminal are shown as escapes, commands that begin or end a group are broken up, and
a long line is logged in parts.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from deltalite.errors import InvalidRequestError
from deltalite.results import NO_NONCE, JobError, JobStarted, OperationResult, parse_marker

_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_TRACEBACK_LINES = 400
# Spark's default layouts: `26/01/31 10:00:00 INFO SparkContext: ...`, and one that begins with the date in full.
_SPARK_LINE = re.compile(r"\d{2,4}[-/]\d{2}[-/]\d{2}[ T][\d:.,]+\S*\s+\[?(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_OUR_LINE = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (deltalite|py\.warnings)\b")
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
GROUP, END_OF_GROUP = "::group::Spark", "::endgroup::"
_GROUP_COMMAND = re.compile(r"::(?=(?:end)?group::)")  # Airflow's UI looks for it anywhere in a line
# Control characters but tabs, and those that turn the direction of a text or end its line.
_STEERING = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_LINE_CHARACTERS = 16_384
_KEPT_LINES = 200
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
_CONTINUED = " ..."


class JobOutput:
    """Listens to one job.

    `say` logs a line that is not the job's; `on_start` is called when it has its application; `hidden` are secrets of
    which nothing that is said here may tell; `nonce` is that of the request. The task's log leaves out lines of Spark
    below `spark_level`.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        on_start: Callable[[JobStarted], None] | None = None,
        hidden: Collection[str] = (),
        *,
        nonce: str = NO_NONCE,
        spark_level: int = logging.NOTSET,
    ) -> None:
        self.result: OperationResult | None = None
        self.error: JobError | None = None
        self._say = say
        self._on_start = on_start
        self._nonce = nonce
        self._spark_level = spark_level
        self._left_out: deque[str] = deque(maxlen=_KEPT_LINES)
        self._below_level = False
        self._hidden: list[str] = []
        self.hide(hidden)
        self._in_group = False
        self._in_traceback = False
        self._traceback: list[str] = []

    def hide(self, secrets: Iterable[str]) -> None:
        """Show stars in place of these secrets too."""
        self._hidden = sorted({*self._hidden, *secrets}, key=len, reverse=True)  # one may begin like another

    @property
    def traceback(self) -> str | None:
        """The traceback of the error that ended the job; None where it said no error."""
        return "\n".join(self._traceback).rstrip() or None if self.error is not None else None

    @property
    def left_out(self) -> str:
        """The newest lines of Spark's log that the task's log leaves out."""
        return "\n".join(self._left_out)

    def leaves_out(self, text: str) -> bool:
        """Whether `text` is the line that `to_log` has yielded last, and the task's log leaves it out."""
        return self._below_level and text.strip() == self._left_out[-1].strip()

    def to_log(self, lines: Iterator[Any]) -> Iterator[Any]:
        """The lines for Airflow's hook; the task's log has them all but those that `leaves_out` names."""
        for line in lines:
            yield from map(self._passed, self._sorted(line.rstrip("\r\n")))
        yield from map(self._passed, self._given_up() if self.error is None else ())
        self._close_group()

    def _passed(self, line: str) -> str:
        """The line, after its group was begun or it was kept as one that is left out.

        A line that begins with white space continues the line before it.
        """
        if match := _SPARK_LINE.match(line):
            self._below_level = _LEVELS[match[1]] < self._spark_level
        elif not line[:1].isspace():
            self._below_level = False
        if self._below_level:
            self._left_out.append(line)
        else:
            self._group(line)
        return line

    def _sorted(self, line: str) -> list[str]:
        """What is to be shown now that this line has come.

        1. A marker is remembered. That of an error ends the traceback before it, and keeps it.
        2. A line of Spark's log is shown; it may come in the middle of a traceback.
        3. A traceback begins: one that was not the job's end, and that it is not chained to, is shown.
        4. The line belongs to the traceback that has begun. Without a marker after it, it is shown in the end.
        5. Any other line is shown.
        """
        match parse_marker(line, self._nonce):
            case JobError() as error:
                self.error = replace(error, message=self._masked(error.message), remedy=self._masked(error.remedy))
                self._in_traceback = False
                return []
            case OperationResult() as result:
                self.result = result
                return self._given_up()
            case JobStarted() as started:
                if self._on_start is not None:
                    self._on_start(started)
                return []
        line = harmless(self._masked(line))
        if _SPARK_LINE.match(line):
            return [line]
        if line == _TRACEBACK:
            superseded = [] if self._is_chained() else self._given_up()
            self._in_traceback = True
            self._traceback.append(line)
            return superseded
        if not self._in_traceback:
            return [line] if line.strip() else []
        self._traceback.append(line)
        return self._given_up() if len(self._traceback) > _TRACEBACK_LINES else []

    def _masked(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return text

    def _is_chained(self) -> bool:
        said = [line for line in self._traceback if line.strip()]
        return bool(said) and said[-1].startswith(_CHAINED)

    def _given_up(self) -> list[str]:
        """The lines of a traceback that is not the end of the job."""
        lines, self._traceback, self._in_traceback = self._traceback, [], False
        return lines

    def _group(self, line: str) -> None:
        if _OUR_LINE.match(line):
            self._close_group()
        elif not self._in_group:
            self._say(GROUP)
            self._in_group = True

    def _close_group(self) -> None:
        if self._in_group:
            self._say(END_OF_GROUP)
            self._in_group = False


def bounded_lines(lines: Iterator[Any]) -> Iterator[Any]:
    """The lines of a stream, in parts of bounded length: a line of any length is never in memory as a whole.

    What is no stream is returned as it is. A part that continues a line is indented, so it is no marker.
    """
    read = getattr(lines, "readline", None)
    if read is None:
        yield from lines
        return
    begin = ""
    while part := read(_LINE_CHARACTERS):
        is_whole = part.endswith("\n")
        yield begin + part if is_whole else begin + part + _CONTINUED
        begin = "" if is_whole else _CONTINUED.rjust(8)


def harmless(line: str) -> str:
    """The line with characters that steer a terminal as escapes, and without commands that begin or end a group."""
    line = _STEERING.sub(lambda found: ascii(found[0])[1:-1], line)
    return _GROUP_COMMAND.sub(": :", line)


def level_of(line: str) -> int:
    """The level that a line of output names, INFO where it names none."""
    found = _SPARK_LINE.match(line) or _OUR_LINE.match(line)
    return _LEVELS[found[1]] if found else logging.INFO


def spark_threshold(name: str) -> int:
    """The level of logging from which Spark's lines are shown, for a name of a level as `spark.log.level` takes it.

    Raises:
        InvalidRequestError: there is no such level.
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
    """A logger for lines of output, which Airflow's hook logs at INFO whatever they are.

    A message of which `leaves_out` is true is not logged.
    """

    def __init__(self, log: logging.Logger, leaves_out: Callable[[str], bool]) -> None:
        self._log = log
        self._leaves_out = leaves_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at the level that the message names."""
        if not self._leaves_out(str(msg)):
            self._log.log(level_of(str(msg)), msg, *args, **kwargs)
