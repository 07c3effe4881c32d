"""What every job does: read the request, open a session, run the command, say the result.

The request is a JSON file; its path is the only argument (a bare name in cluster modes, where Spark ships the file).
The job's application, and then its result or error, go to stdout as marker lines, and the process ends with the error's
exit code, so that the operator need not parse text. Once the command has returned, nothing can turn its success into a
failure. A job that is asked to end takes back what it has not committed.
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
from deltalite.results import JobStarted, OperationResult, error_marker, result_marker, started_marker
from deltalite.spark.session import open_session, shipped_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Request = TypeVar("_Request")
_UNEXPECTED = 1
_log = logging.getLogger("deltalite")


def run(
    name: str,
    parse: Callable[[str], _Request],
    command: Callable[[SparkSession, _Request], OperationResult],
    arguments: list[str],
) -> int:
    """Run one job; the return value is the exit code of the process."""
    signal.signal(signal.SIGTERM, _terminated)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    _log.setLevel(logging.INFO)
    # PySpark repeats each analysis error as one line of JSON with the whole Java stack; the error itself says it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        spark = open_session(f"deltalite {name}")
        context = spark.sparkContext
        _say(started_marker(JobStarted(application_id=context.applicationId, ui_url=context.uiWebUrl)))
        result = command(spark, parse(_request_text(arguments)))
    except Exception as error:  # noqa: BLE001  the boundary of the process: every error ends as marker and exit code
        return _failed(error)
    marker = result_marker(result)
    if marker is not None:
        _say(marker)
    _stop(spark)
    return 0


def _terminated(signum: int, _frame: object) -> NoReturn:
    """End as after an error: files that nobody will see are removed, and a commit that is there stays."""
    raise SystemExit(128 + signum)


def _request_text(arguments: list[str]) -> str:
    path = Path(arguments[0])
    return (path if path.is_file() else shipped_file(path.name)).read_text(encoding="utf-8")


def _failed(error: Exception) -> int:
    traceback.print_exc()
    sys.stderr.flush()
    _say(error_marker(type(error).__name__, str(error)))
    return error.exit_code if isinstance(error, DeltaLiteError) else _UNEXPECTED


def _say(marker: str) -> None:
    """A line of its own, whatever stood on the terminal before it."""
    print(f"\n{marker}", flush=True)  # noqa: T201  stdout is the result channel


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception:  # noqa: BLE001  the operation is done
        _log.warning("Spark did not stop cleanly; the operation is done.", exc_info=True)
