"""What a job prints, sorted as it comes: its marker lines, its traceback, its own log, and Spark's.

Marker lines are remembered and not shown. The traceback with which a job ends is kept whole, so that it can be said as
one error after everything else. What is left is logged line by line, at the level that the line itself names; between
the job's own lines Spark's stand in groups, which Airflow shows folded. Nothing is dropped but markers and empty lines.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from deltalite.results import JobError, JobStarted, OperationResult, parse_marker, parse_started

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


class JobOutput:
    """Listens to one job.

    `say` logs a line that is not the job's; `on_start` is called when it has its application; `hidden` are secrets of
    which nothing that is said here may tell.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        on_start: Callable[[JobStarted], None] | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        self.result: OperationResult | None = None
        self.error: JobError | None = None
        self._say = say
        self._on_start = on_start
        self._hidden = sorted(hidden, key=len, reverse=True)  # one may begin like another
        self._in_group = False
        self._in_traceback = False
        self._traceback: list[str] = []

    @property
    def traceback(self) -> str | None:
        """The traceback of the error that ended the job; None where it said no error."""
        return "\n".join(self._traceback).rstrip() or None if self.error is not None else None

    def to_log(self, lines: Iterator[Any]) -> Iterator[Any]:
        """The lines that the task's log is to have."""
        for line in lines:
            for shown in self._sorted(line.rstrip("\r\n")):
                self._group(shown)
                yield shown
        for shown in self._given_up() if self.error is None else ():
            self._group(shown)
            yield shown
        self._close_group()

    def _sorted(self, line: str) -> list[str]:
        """What is to be shown now that this line has come.

        1. A marker is remembered. That of an error ends the traceback before it, and keeps it.
        2. A line of Spark's log is shown; it may come in the middle of a traceback.
        3. A traceback begins: one that was not the job's end, and that it is not chained to, is shown.
        4. The line belongs to the traceback that has begun. Without a marker after it, it is shown in the end.
        5. Any other line is shown.
        """
        match parse_marker(line):
            case JobError() as error:
                self.error, self._in_traceback = replace(error, message=self._masked(error.message)), False
                return []
            case OperationResult() as result:
                self.result = result
                return self._given_up()
        if started := parse_started(line):
            if self._on_start is not None:
                self._on_start(started)
            return []
        line = self._masked(line)
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


def level_of(line: str) -> int:
    """The level that a line of output names, INFO where it names none."""
    found = _SPARK_LINE.match(line) or _OUR_LINE.match(line)
    return _LEVELS[found[1]] if found else logging.INFO


class LevelledLog:
    """A logger for lines of output, which Airflow's hook logs at INFO whatever they are."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def info(self, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at the level that the message names."""
        self._log.log(level_of(str(msg)), msg, *args, **kwargs)
