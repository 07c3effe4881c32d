"""Parameters that operators with inputs share: `source`, `sources`, `query`, `query_params` and `deduplicate`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from deltalite.errors import InvalidRequestError
from deltalite.requests import Audit, MaintainRequest, Request, Source
from deltalite.storage.locations import reject_parent_segments

SOURCE_FIELDS = ("source", "sources", "query", "query_params", "deduplicate")
SOURCE_RENDERERS = {"source": "json", "sources": "json", "query": "sql", "query_params": "json", "deduplicate": "json"}

_ADDRESS_OPTIONS = frozenset({"path", "paths", "data", "basepath", "location", "file", "files", "url", "dbtable"})
_SQL_OPTIONS = frozenset({"query", "preparequery", "sessioninitstatement"})
_QUOTED_NAME_PATTERN = re.compile("`([^`]+)`")


def sources_by_view(
    source: Mapping[str, Any] | None, sources: Mapping[str, Mapping[str, Any]] | None
) -> Mapping[str, Mapping[str, Any]] | None:
    """Return the inputs by the names of their views. A single input is called `source`.

    Raises:
        InvalidRequestError: neither `source` nor `sources` is given, or both are.
    """
    if (source is None) == (sources is None):
        raise InvalidRequestError(
            f"The task needs one of `source` and `sources`, but has {'neither' if source is None else 'both'}.",
            remedy="Give `source` for one input, or `sources` for several inputs by the names of their views.",
        )
    return sources if source is None else {"source": source}


def reject_parent_segments_of_request(request: Request, is_unknown: Callable[[str], bool] | None = None) -> None:
    """Raise if an address of the request has a parent segment (`..`), which leads out of its folder.

    The function checks these addresses:

    - the table, or the tables or the pattern of a maintenance;
    - the path of each source;
    - every reader option that is an address or a list of addresses (`path`, `paths`, `data`, an option of a connector);
    - the other tables of audits, and the quarantine;
    - files that the query names (``csv.`/landing/x` ``).

    The function skips an address for which `is_unknown` returns True: its value is not known until the task runs.

    Raises:
        InvalidTableAddressError: see `locations.reject_parent_segments`.
    """
    for address in _addresses(request):
        if is_unknown is None or not is_unknown(address):
            reject_parent_segments(address)


def _addresses(request: Request) -> Iterator[str]:
    yield request.table
    if isinstance(request, MaintainRequest):
        yield from (*request.tables, request.pattern or "")
    sources: Mapping[str, Source] = getattr(request, "sources", {})
    for source in sources.values():
        yield source.path or ""
        yield from (value for name, value in source.options.items() if _may_be_address(name, value))
    yield from audit_addresses(request)
    yield getattr(request, "quarantine", None) or ""
    quoted_names = _QUOTED_NAME_PATTERN.findall(getattr(request, "query", None) or "")
    yield from (name for name in quoted_names if _has_folder(name))


def _may_be_address(option: str, value: str) -> bool:
    """Whether a reader option may be an address, by its name or because its value names a folder.

    SQL for another database is never an address.
    """
    name = option.lower()
    if name in _SQL_OPTIONS or (name == "dbtable" and value.lstrip().startswith("(")):
        return False
    return name in _ADDRESS_OPTIONS or _has_folder(value)


def _has_folder(text: str) -> bool:
    # The text may be percent-encoded once or twice.
    return any(separator in unquote(unquote(text)) for separator in "/\\")


def audit_addresses(request: Request) -> list[str]:
    """Return the addresses of the tables that audits of the request refer to."""
    audits: Sequence[Audit] = getattr(request, "audits", ())
    return [audit.in_table for audit in audits if audit.in_table is not None]


def delta_addresses(sources: Mapping[str, Source]) -> list[str]:
    """Return the addresses of the Delta tables among the sources."""
    return [source.path or "" for source in sources.values() if source.format.lower() == "delta"]
