"""Row tracking: when a writer assigns row ids, the high water mark of the ids, and the columns that preserve them.

A table *supports* row tracking if its protocol lists the feature. Writers then assign a base row id and a row commit
version to each new file, unless `delta.rowTrackingSuspended` is set. Row tracking is *enabled* by
`delta.enableRowTracking`. Writers then also preserve the ids of rows that they copy. Protocol: Row Tracking.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltalite.errors import CorruptLogError
from deltalite.protocol import properties as props
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol
from deltalite.protocol.features import supported_features

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
"""The domain that holds the high water mark."""

NO_ROW_ID = -1
"""The high water mark of a table that has assigned no row id."""
HIGHEST_ROW_ID = 2**63 - 1
_MARK = "rowIdHighWaterMark"


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers of the table assign row ids to new files."""
    return FEATURE in supported_features(protocol) and not props.ROW_TRACKING_SUSPENDED.of(metadata.configuration)


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """Return the highest row id that any version has assigned, `NO_ROW_ID` if none has.

    Raises:
        CorruptLogError: the domain holds no such number.
    """
    domain = domains.get(DOMAIN)
    if domain is None or domain.removed:
        return NO_ROW_ID
    try:
        mark = json.loads(domain.configuration)[_MARK]
    except (ValueError, KeyError, TypeError, RecursionError):
        mark = None
    if isinstance(mark, int) and not isinstance(mark, bool) and NO_ROW_ID <= mark <= HIGHEST_ROW_ID:
        return mark
    raise CorruptLogError(
        f"The domain {DOMAIN} is {domain.configuration!r:.200}, which holds no highest row id.",
        remedy="Repair it with the engine that wrote it.",
    )


def mark_domain(mark: int) -> DomainMetadata:
    """Return the domain that records the high water mark."""
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({_MARK: mark}, separators=(",", ":")), removed=False)
