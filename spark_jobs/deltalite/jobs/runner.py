"""The steps of every job: read the request, open a Spark session, run the command, report the result.

The request is a JSON file. Its path is the only argument. In cluster modes Spark ships the file, and the argument is
only its name.

The job prints marker lines with the nonce of the request to stdout: first its application, then its result or error.
The process ends with the exit code of the error, so the operator need not parse text. After the command has returned,
an error while Spark stops does not fail the job. On SIGTERM the job removes its uncommitted files. The log of the job
shows no secret of the request. The second and later lines of a log message are indented, so that they cannot look like
log messages. The result, and the log of a failed job, have the seconds of the job's phases (`deltalite.phases`).
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from deltalite.errors import ApprovalNeededError, DeltaLiteError, MaintenanceError
from deltalite.markers import NO_NONCE, error_marker, nonce_of, question_markers, result_markers, started_marker
from deltalite.phases import PHASES
from deltalite.redaction import redacted, secret_values
from deltalite.requests import AuditQuestion, Request
from deltalite.results import JobStarted, OperationResult
from deltalite.spark.hadoop.opening import check_address_is_unambiguous
from deltalite.spark.runtime.driver_age import driver_age_s
from deltalite.spark.runtime.session import open_session, shipped_file, stop_session
from deltalite.spark.runtime.termination import Termination

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Request = TypeVar("_Request", bound=Request)
_UNEXPECTED_ERROR_EXIT_CODE = 1
_log = logging.getLogger("deltalite")


def run(
    name: str,
    parse: Callable[[str], _Request],
    command: Callable[[SparkSession, _Request], OperationResult],
    arguments: list[str],
) -> int:
    """Run one job, and return the exit code of the process.

    Args:
        name: the name of the operation, for Spark's UI.
        parse: makes the request from its JSON.
        command: runs the operation.
        arguments: the arguments of the process: the path of the request file.
    """
    PHASES.restart()
    job_start_ms = time.time_ns() // 1_000_000
    secrets: list[str] = []
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_RedactingFormatter(secrets))
    logging.basicConfig(handlers=[handler])
    _log.setLevel(logging.INFO)
    # PySpark logs each analysis error a second time, as one line of JSON with the whole Java stack.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    nonce = NO_NONCE
    with Termination() as termination:
        try:
            path = Path(arguments[0])
            request_json = path.read_text(encoding="utf-8") if path.is_file() else None
            # The nonce is set before the session opens, because the marker of a session error contains it.
            nonce = nonce_of(request_json or "")
            spark = open_session(f"deltalite {name}")
            termination.watch(spark)
            PHASES.end_start(driver_age_s(spark, job_start_ms=job_start_ms))
            if request_json is None:
                request_json = shipped_file(path.name).read_text(encoding="utf-8")
            nonce = nonce_of(request_json)
            secrets.extend(_secrets_of(request_json))
            context = spark.sparkContext
            started = JobStarted(application_id=context.applicationId, ui_url=context.uiWebUrl)
            _print_marker(started_marker(started, nonce))
            request = parse(request_json)
            check_address_is_unambiguous(spark, request.table)
            result = command(spark, request)
        except Exception as error:  # noqa: BLE001  every error must end in a marker and an exit code
            return _report_failure(error, nonce, secrets)
        _print_result(result, nonce)
        _stop_spark(spark)
    return 0


class _RedactingFormatter(logging.Formatter):
    """A formatter that replaces secrets with stars, and indents the second and later lines of a message.

    The caller may add to `secrets` later.
    """

    def __init__(self, secrets: list[str]) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return "\n    ".join(redacted(super().format(record), self._secrets).splitlines())


def _secrets_of(request_json: str) -> list[str]:
    return sorted(set(secret_values(request_json)), key=len, reverse=True)


def _report_failure(error: Exception, nonce: str, secrets: list[str]) -> int:
    """Write the phases and the traceback to stderr, print the error marker, and return the exit code.

    A question to a person is no failure, so the job prints the question in place of the traceback.
    """
    if isinstance(error, ApprovalNeededError) and isinstance(error.question, AuditQuestion):
        for marker in question_markers(error.question.with_texts(lambda text: redacted(text, secrets)), nonce):
            _print_marker(marker)
    else:
        seconds_text = ", ".join(f"{name} {seconds}" for name, seconds in PHASES.seconds().items())
        # The worker reads the lines from the beginning of the traceback to the marker as the traceback.
        _log.info("The job failed in the phase %s. Seconds in each phase: %s.", PHASES.phase, seconds_text)
        sys.stderr.write(redacted("".join(traceback.format_exception(error)), secrets))
        sys.stderr.flush()
    remedy = error.remedy if isinstance(error, DeltaLiteError) else ""
    if isinstance(error, MaintenanceError) and isinstance(error.result, OperationResult):
        _print_result(error.result, nonce)
    _print_marker(
        error_marker(type(error).__name__, redacted(str(error), secrets), remedy=redacted(remedy, secrets), nonce=nonce)
    )
    return error.exit_code if isinstance(error, DeltaLiteError) else _UNEXPECTED_ERROR_EXIT_CODE


def _print_result(result: OperationResult, nonce: str) -> None:
    """Print the result with the phases of this job."""
    for marker in result_markers(replace(result, phases=PHASES.seconds()), nonce):
        _print_marker(marker)


def _print_marker(marker: str) -> None:
    """Print the marker on a separate line, even if the last output does not end with a line break."""
    # Spark runs Python without a buffer for stdout, and `print` would write the last line break separately. The JVM
    # could then log between both writes.
    sys.stdout.write(f"\n{marker}\n")
    sys.stdout.flush()


def _stop_spark(spark: SparkSession) -> None:
    try:
        stop_session(spark)
    except Exception:  # noqa: BLE001  the operation has already succeeded
        _log.warning("Spark did not stop cleanly, but the operation has succeeded.", exc_info=True)
