"""What operators with inputs have in common: `source`, `sources`, and the `query` over them with its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltalite.errors import InvalidRequestError
from deltalite.requests import Request, Source

SOURCE_FIELDS = ("source", "sources", "query", "query_params")
SOURCE_RENDERERS = {"source": "json", "sources": "json", "query": "sql", "query_params": "json"}


def views(
    source: Mapping[str, Any] | None, sources: Mapping[str, Mapping[str, Any]] | None
) -> Mapping[str, Mapping[str, Any]] | None:
    """The inputs by the names of their views; a single one is called `source`.

    Raises:
        InvalidRequestError: neither is given, or both.
    """
    if (source is None) == (sources is None):
        raise InvalidRequestError(
            f"The task needs one of `source` and `sources`, and has {'neither' if source is None else 'both'}.",
            remedy="Give `source` for one input, or `sources` for several by the names of their views.",
        )
    return sources if source is None else {"source": source}


def places(request: Request) -> list[str]:
    """The table, and every path that is read."""
    sources: Mapping[str, Source] = getattr(request, "sources", {})
    return [request.table, *(source.path for source in sources.values() if source.path)]


def delta_addresses(sources: Mapping[str, Source]) -> list[str]:
    """The addresses of the Delta tables that are read."""
    return [source.path or "" for source in sources.values() if source.format.lower() == "delta"]
