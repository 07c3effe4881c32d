"""The results of audits in the log of a task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltalite.results import OperationResult


def log_audits(log: Any, result: OperationResult) -> None:
    """Log a line for each audit of the result, as a warning if the audit did not pass."""
    if result.audits is None:
        log.info("This worker did not receive the results of the audits. The driver's log has them.")
    for audit in result.audits or ():
        level = logging.INFO if audit.passed else logging.WARNING
        log.log(level, "Audit %s: %s", "passed" if audit.passed else "did not pass", audit)
