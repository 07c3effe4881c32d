"""The parameters `quarantine` and `max_bad_share`: the table for bad records, and the limit on their share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltalite.requests.base import Fault

if TYPE_CHECKING:
    from deltalite.requests.copy import CopyRequest

DEFAULT_MAX_BAD_SHARE = 0.5
FORMATS_WITH_BAD_RECORDS = ("csv", "json")
_REFUSED_OPTIONS = ("columnnameofcorruptrecord", "singlevariantcolumn")


def quarantine_faults(request: CopyRequest) -> Iterator[Fault]:
    """Yield the faults of the parameters, each with its remedy."""
    share, address = request.max_bad_share, request.quarantine
    if share is not None and not 0 <= share <= 1:
        yield f"max_bad_share is {share}.", "Give a number from 0 to 1."
    if address is None:
        if share is not None:
            yield (
                "max_bad_share limits the records that go to a quarantine, and the request has none.",
                "Give `quarantine`, or leave max_bad_share out.",
            )
        return
    if not address.strip():
        yield "quarantine is empty.", "Give the address of a Delta table for bad records, or leave it out."
    if address.rstrip("/") == request.table.rstrip("/"):
        yield f"The quarantine is the table itself, {address}.", "Give the address of another table."
    source = request.source
    if source.format not in FORMATS_WITH_BAD_RECORDS:
        yield (
            f"quarantine takes bad records of CSV and JSON files, and the format of the source is '{source.format}'.",
            "Leave quarantine out: a file of this format can be read as a whole or not at all.",
        )
    if request.merge_schema and source.schema is None:
        yield (
            "merge_schema without `schema` infers new columns from all records, so a bad record could add a column.",
            "Give `schema` in the source, or leave merge_schema or quarantine out.",
        )
    for name in source.options:
        if name.lower() in _REFUSED_OPTIONS:
            yield f"The source has the option {name!r}, and the request has a quarantine.", "Leave the option out."
