"""Self reads: sources that are the target table. The operation reads them at the version that it is based on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltalite.requests import Source
from deltalite.spark.reader.sources import delta_address
from deltalite.storage.locations import is_same_table


def pinned_sources(sources: Mapping[str, Source], table: str, version: int) -> dict[str, Source]:
    """Return the sources, with each self read pinned to `version`."""
    pinned_names = self_reads(sources, table)
    return {name: _pinned(source, version) if name in pinned_names else source for name, source in sources.items()}


def self_reads(sources: Mapping[str, Source], table: str) -> tuple[str, ...]:
    """Return the names of the Delta sources that read the table itself and name no version."""
    names = []
    for name, source in sources.items():
        if source.format.lower() == "delta":
            address = delta_address(source)
            versions = (address.version, address.timestamp_ms, source.changes_to_version)
            if versions == (None, None, None) and is_same_table(address.path, table):
                names.append(name)
    return tuple(names)


def _pinned(source: Source, version: int) -> Source:
    """Return a Delta source that reads the table at `version`, or its change feed up to `version`."""
    if source.changes_from_version is not None:
        return replace(source, changes_to_version=version)
    return replace(source, version_as_of=version)
