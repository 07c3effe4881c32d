"""New row ids and row commit versions of the files that a commit adds.

The base row id of a new file is one above the high water mark. Its rows have consecutive ids from the base row id on.
The file also records the version that added it. A file that the log already has keeps both values.

Each attempt of a commit assigns both values again, because a winning commit may have raised the mark. Protocol: Writer
Requirements for Row Tracking; delta-spark: RowId, ConflictChecker.reassignOverlappingRowIds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deltalite.errors import ConstraintViolationError, InvalidRequestError
from deltalite.protocol.actions import AddFile, DomainMetadata
from deltalite.protocol.row_tracking import HIGHEST_ROW_ID, assigns_row_ids, is_enabled, mark_domain
from deltalite.txn.proposal import Proposal
from deltalite.txn.record_counts import record_count

PRESERVED_TAG = "delta.rowTracking.preserved"
"""The tag of a commit that tells whether its updated and copied rows keep their row ids."""


def needs_row_ids(proposal: Proposal) -> bool:
    """Whether the commit of the proposal assigns row ids."""
    return proposal.table_meets(assigns_row_ids)


def has_row_ids(proposal: Proposal) -> bool:
    """Whether every row has a row id after the commit."""
    return proposal.table_meets(is_enabled)


def with_row_ids(proposal: Proposal, version: int) -> Iterator[AddFile | DomainMetadata]:
    """Yield the added files with row ids and row commit versions, then the high water mark if it rises.

    `version` is the version of the attempt. The files are created one at a time.

    Raises:
        InvalidRequestError: a file needs a row id, and its statistics lack the number of records.
        ConstraintViolationError: the table has used up its row ids.
    """
    mark = proposal.base.row_id_mark
    for add in proposal.adds:
        base_row_id = mark + 1 if add.base_row_id is None else add.base_row_id
        # The file is new, or it is restored and a drop of the feature has reset the mark.
        if base_row_id > mark:
            mark = max(mark, base_row_id + _required_record_count(add) - 1)
        if mark > HIGHEST_ROW_ID:
            raise ConstraintViolationError(
                f"Could not add {add.path}: the table has used up its row ids, which have 64 bits.",
                remedy="Write the rows to a new table.",
            )
        commit_version = version if add.default_row_commit_version is None else add.default_row_commit_version
        yield replace(add, base_row_id=base_row_id, default_row_commit_version=commit_version)
    if mark > proposal.base.row_id_mark:
        yield mark_domain(mark)


def _required_record_count(add: AddFile) -> int:
    count = record_count(add)
    if count is None:
        raise InvalidRequestError(
            f"Could not assign row ids to the file {add.path}: its statistics lack numRecords.",
            remedy="Rewrite the file with DeltaOptimizeOperator, or set delta.rowTrackingSuspended in another engine.",
        )
    return count
