"""The parameters `quarantine` and `max_bad_share`, and the audits of level `quarantine`.

A quarantine is a table for these parts of a source:

- bad records and unreadable files of a copy
- rows that audits of level `quarantine` reject, in a write, copy, merge or SCD task
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from deltalite.requests.audits import DEFAULT_MAX_REJECTED_SHARE, Audit, AuditLevel
from deltalite.requests.base import Fault

if TYPE_CHECKING:
    from deltalite.requests.copy import CopyRequest
    from deltalite.requests.rows import MergeRequest
    from deltalite.requests.scd import ScdRequest
    from deltalite.requests.write import WriteRequest

FORMATS_WITH_BAD_RECORDS = ("csv", "json")
_DEFAULT_MAX_BAD_COUNT = 10  # one bad file must not block a source
_REFUSED_OPTIONS = ("columnnameofcorruptrecord", "singlevariantcolumn")


def rejecting_audits(audits: Iterable[Audit]) -> tuple[Audit, ...]:
    """Return the audits of level `quarantine`, which leave rows out of the commit."""
    return tuple(audit for audit in audits if audit.level is AuditLevel.QUARANTINE)


def max_bad_count(request: CopyRequest, count: int) -> int:
    """Return how many of the `count` records or files of a run may be bad. `max_bad_share=0.29` allows 29 of 100."""
    if request.max_bad_share is None:
        return max(_DEFAULT_MAX_BAD_COUNT, int(DEFAULT_MAX_REJECTED_SHARE * count))
    return int(Decimal(str(request.max_bad_share)) * count)


def quarantine_level_faults(audits: Iterable[Audit], reason: str, remedy: str) -> Iterator[Fault]:
    """Yield the fault of the first audit of level `quarantine`, for an operation that leaves out no row.

    `reason` says why, such as "a delete adds no rows". `remedy` is the end of the sentence "Set level='fail'".
    """
    for audit in rejecting_audits(audits)[:1]:
        yield f"The audit '{audit.name}' has the level 'quarantine', but {reason}.", f"Set level='fail'{remedy}."


def write_quarantine_faults(request: WriteRequest) -> Iterator[Fault]:
    """Yield the faults of the quarantine of a write, each with its remedy."""
    audits = rejecting_audits(request.audits)
    yield from rows_quarantine_faults(request)
    if audits and not request.data_change:
        yield (
            f"data_change=False promises that no row is lost, but the audit '{audits[0].name}' leaves out rows.",
            "Set the level of the audit to 'fail', or leave data_change out.",
        )
    if audits and request.deduplicate is not None:
        problem = (
            f"deduplicate chooses the row of a key before the audit '{audits[0].name}' rejects rows, so it could keep "
            "a bad row and drop a good one."
        )
        yield problem, "Filter the bad rows in `query`, or deduplicate in a later task that reads the table."


def merge_quarantine_faults(request: MergeRequest) -> Iterator[Fault]:
    """Yield the faults of the quarantine of a merge, each with its remedy."""
    yield from rows_quarantine_faults(request)
    if request.when_not_matched_by_source:
        problem = (
            "when_not_matched_by_source changes target rows without a source row, and a rejected source row matches no "
            "target row. So a bad source row would change or delete a good target row"
        )
        yield from quarantine_level_faults(request.audits, problem, ", or leave when_not_matched_by_source out")


def rows_quarantine_faults(request: WriteRequest | MergeRequest | ScdRequest) -> Iterator[Fault]:
    """Yield the faults of a quarantine that takes rejected rows only, each with its remedy."""
    audits = rejecting_audits(request.audits)
    yield from _address_faults(request.quarantine, request.table, audits)
    if request.quarantine is not None and not audits:
        yield (
            "quarantine takes the rows that audits of level 'quarantine' reject, and the request has no such audit.",
            "Give one of the `audits` the level 'quarantine', or leave quarantine out.",
        )
    for name, source in request.sources.items() if request.quarantine is not None else ():
        if _is_same(source.path or "", request.quarantine or ""):
            yield f"The quarantine is the source '{name}', {source.path}.", "Give the address of another table."


def copy_quarantine_faults(request: CopyRequest) -> Iterator[Fault]:
    """Yield the faults of the quarantine of a copy, each with its remedy."""
    share, address, source = request.max_bad_share, request.quarantine, request.source
    if share is not None and not 0 <= share <= 1:
        yield f"max_bad_share is {share}.", "Give a number from 0 to 1."
    if share is not None and address is None:
        yield (
            "max_bad_share limits the records and files that go to a quarantine, and the request has none.",
            "Give `quarantine`, or leave max_bad_share out.",
        )
    yield from _address_faults(address, request.table, rejecting_audits(request.audits))
    if address is None or source.format not in FORMATS_WITH_BAD_RECORDS:
        return
    if request.merge_schema and source.schema is None:
        yield (
            "merge_schema without `schema` infers new columns from all records, so a bad record could add a column.",
            "Give `schema` in the source, or leave merge_schema or quarantine out.",
        )
    for name in source.options:
        if name.lower() in _REFUSED_OPTIONS:
            yield f"The source has the option {name!r}, and the request has a quarantine.", "Leave the option out."


def _address_faults(address: str | None, table: str, audits: tuple[Audit, ...]) -> Iterator[Fault]:
    """Yield the faults of the address of a quarantine."""
    if address is None:
        for audit in audits[:1]:
            yield (
                f"The audit '{audit.name}' has the level 'quarantine', and the request has no quarantine.",
                "Give `quarantine`, the address of a Delta table for the rejected rows, or set level='fail'.",
            )
        return
    if not address.strip():
        yield "quarantine is empty.", "Give the address of a Delta table for rejected rows, or leave it out."
    elif _is_same(address, table):
        yield f"The quarantine is the table itself, {address}.", "Give the address of another table."


def _is_same(address: str, other: str) -> bool:
    return bool(address) and address.rstrip("/") == other.rstrip("/")
