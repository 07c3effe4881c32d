"""The quarantine in the history of a table: the operation parameters and the metric that name the rejected rows.

The functions here do no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deltalite.results import QuarantineResult

QUARANTINE, QUARANTINE_VERSION = "quarantine", "quarantineVersion"
"""The operation parameters with the address of the quarantine table, and the version that has the rows of the run."""
QUARANTINED_ROWS = "numQuarantinedRows"
"""The operation metric with the number of rows that the run put into quarantine."""

_VERSION = re.compile(r"\d{1,18}", re.ASCII)


def quarantine_parameters(quarantine: QuarantineResult) -> dict[str, str]:
    """Return the operation parameters of a commit."""
    version = {} if quarantine.version is None else {QUARANTINE_VERSION: str(quarantine.version)}
    return {QUARANTINE: quarantine.table, **version}


def quarantine_of(parameters: Any, metrics: Mapping[str, int]) -> QuarantineResult | None:
    """Return the quarantine from the operation parameters and metrics of a commit, or None if they name none.

    Another program may have written the parameters, so a value of an unexpected type counts as absent.
    """
    table = parameters.get(QUARANTINE) if isinstance(parameters, Mapping) else None
    if not isinstance(table, str) or QUARANTINED_ROWS not in metrics:
        return None
    version = parameters.get(QUARANTINE_VERSION)
    return QuarantineResult(
        table=table,
        version=int(version) if isinstance(version, str) and _VERSION.fullmatch(version) else None,
        rows=metrics[QUARANTINED_ROWS],
    )
