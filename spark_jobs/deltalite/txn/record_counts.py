"""The number of records in the statistics of an added file. Commits to some tables need this number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from deltalite.columnar.skipping.file_facts import parse_stats
from deltalite.errors import InvalidRequestError
from deltalite.protocol.actions import AddFile
from deltalite.protocol.iceberg_compat import active_iceberg_compat
from deltalite.txn.proposal import Proposal

_Action = TypeVar("_Action")


def record_count(add: AddFile) -> int | None:
    """Return `numRecords` of the file's statistics, None if the statistics lack it."""
    stats = parse_stats(add.stats)
    return None if stats is None else stats.num_records


def needs_record_counts(proposal: Proposal) -> bool:
    """Whether each added file needs the number of its records. Protocol: Iceberg Compatibility V1 and V2."""
    return proposal.table_meets(lambda protocol, metadata: active_iceberg_compat(protocol, metadata) is not None)


def with_checked_record_counts(actions: Iterable[_Action]) -> Iterator[_Action]:
    """Yield the actions, and check that each added file has the number of its records.

    Raises:
        InvalidRequestError: the statistics of a file lack the number.
    """
    for action in actions:
        if isinstance(action, AddFile) and record_count(action) is None:
            raise InvalidRequestError(
                f"Could not add the file {action.path}: its statistics lack numRecords, which Iceberg "
                "compatibility needs.",
                remedy="Restore another version, or unset the property that enables Iceberg compatibility first.",
            )
        yield action
