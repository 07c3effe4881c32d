"""The common course of every job: read the request, open a session, run the command, report the result.

The request is a JSON file. Its path is the only argument: a bare name in cluster modes, where Spark ships the file.
The job prints marker lines with the nonce of the request to stdout: first its application, then its result or error.
The process ends with the exit code of the error, so the operator need not parse text. After the command has returned,
nothing can turn its success into a failure. On SIGTERM the job removes its uncommitted files. The log of the job shows
no secret of the request. The further lines of a log message are indented, so that they cannot look like other entries.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from deltalite.errors import DeltaLiteError
from deltalite.redaction import redacted, secret_values
from deltalite.requests import Request
from deltalite.results import (
    NO_NONCE,
    JobStarted,
    OperationResult,
    error_marker,
    nonce_of,
    result_marker,
    started_marker,
)
from deltalite.spark.hadoop.opening import check_means_one_file_system
from deltalite.spark.runtime.session import open_session, shipped_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Request = TypeVar("_Request", bound=Request)
_UNEXPECTED = 1
_log = logging.getLogger("deltalite")


def run(
    name: str,
    parse: Callable[[str], _Request],
    command: Callable[[SparkSession, _Request], OperationResult],
    arguments: list[str],
) -> int:
    """Run one job, and return the exit code of the process."""
    signal.signal(signal.SIGTERM, _exit_on_signal)
    hidden: list[str] = []
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(hidden))
    logging.basicConfig(handlers=[handler])
    _log.setLevel(logging.INFO)
    # PySpark logs each analysis error a second time, as one line of JSON with the whole Java stack.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    nonce = NO_NONCE
    try:
        path = Path(arguments[0])
        text = path.read_text(encoding="utf-8") if path.is_file() else None
        nonce = nonce_of(text or "")  # set early, so that an error of the session has it too
        spark = open_session(f"deltalite {name}")
        text = shipped_file(path.name).read_text(encoding="utf-8") if text is None else text
        nonce = nonce_of(text)
        hidden.extend(_secrets_of(text))
        context = spark.sparkContext
        _print_marker(started_marker(JobStarted(application_id=context.applicationId, ui_url=context.uiWebUrl), nonce))
        request = parse(text)
        check_means_one_file_system(spark, request.table)
        result = command(spark, request)
    except Exception as error:  # noqa: BLE001  the boundary of the process: every error ends as marker and exit code
        return _report_failure(error, nonce, hidden)
    marker = result_marker(result, nonce)
    if marker is not None:
        _print_marker(marker)
    _stop(spark)
    return 0


def _exit_on_signal(signum: int, _frame: object) -> NoReturn:
    """End the process as after an error: the job removes its uncommitted files, and a commit stays."""
    raise SystemExit(128 + signum)


class _Formatter(logging.Formatter):
    """A formatter that indents the further lines of a message and replaces secrets with stars."""

    def __init__(self, hidden: list[str]) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._hidden = hidden

    def format(self, record: logging.LogRecord) -> str:
        return "\n    ".join(redacted(super().format(record), self._hidden).splitlines())


def _secrets_of(request_json: str) -> list[str]:
    return sorted(set(secret_values(request_json)), key=len, reverse=True)


def _report_failure(error: Exception, nonce: str, hidden: list[str]) -> int:
    sys.stderr.write(redacted("".join(traceback.format_exception(error)), hidden))
    sys.stderr.flush()
    remedy = error.remedy if isinstance(error, DeltaLiteError) else ""
    _print_marker(
        error_marker(type(error).__name__, redacted(str(error), hidden), remedy=redacted(remedy, hidden), nonce=nonce)
    )
    return error.exit_code if isinstance(error, DeltaLiteError) else _UNEXPECTED


def _print_marker(marker: str) -> None:
    """Print the marker on a separate line, even if the last output has no line break."""
    print(f"\n{marker}", flush=True)  # noqa: T201  stdout is the result channel


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception:  # noqa: BLE001  the operation is done
        _log.warning("Spark did not stop cleanly; the operation is done.", exc_info=True)
