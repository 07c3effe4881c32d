"""The parameters of an incremental source: a Delta table of which each run loads the new commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from deltalite.requests.base import Fault, retention_faults

if TYPE_CHECKING:
    from deltalite.requests.source import Source

BY_ADDRESS = "true"
"""The value of `incremental` that names the flow by the address of its source."""
_OTHER_SELECTIONS = ("version_as_of", "timestamp_as_of", "changes_from_version", "changes_to_version")
_PARAMETERS = ("read", "starting_version", "max_versions", "max_bytes", "on_gap", "on_change")


class SourceRead(StrEnum):
    """The rows that an incremental source loads: appended rows, or the change data feed."""

    APPENDS = "appends"
    CHANGES = "changes"


class OnGap(StrEnum):
    """The behavior if the source lost versions: fail, or load the snapshot again."""

    FAIL = "fail"
    RELOAD = "reload"


class OnChange(StrEnum):
    """The behavior for a commit that changes rows: fail, or leave it out."""

    FAIL = "fail"
    SKIP = "skip"


def incremental_faults(source: Source) -> Iterator[Fault]:
    """Yield the faults of the parameters, each with its remedy."""
    if source.incremental is None:
        for name in _PARAMETERS:
            if getattr(source, name) is not None:
                yield f"The source has {name} without `incremental`.", "Set incremental=True, or leave it out."
        return
    if not source.incremental.strip() or not source.incremental.isprintable():
        yield f"`incremental` is {source.incremental!r}.", "Give True, or a name for the flow."
    if source.format.lower() != "delta":
        yield f"`incremental` needs format 'delta', but the format is '{source.format}'.", "Change one of them."
    for name in _OTHER_SELECTIONS:
        if getattr(source, name) is not None:
            yield f"The source has `incremental` and {name}, which both select versions.", "Keep one of them."
    yield from _value_faults(source)


def _value_faults(source: Source) -> Iterator[Fault]:
    if source.reads_row_ids:
        yield "The source has `incremental` and the option readRowIds.", "Keep one of them."
    for name, least in (("max_versions", 1), ("max_bytes", 1), ("starting_version", 0)):
        value = getattr(source, name)
        if value is not None and (type(value) is not int or value < least):
            yield (
                f"{name} is {value!r}, which is not a whole number of {least} or more.",
                f"Give {least} or more, or leave it out.",
            )
    if source.reads_changes and source.on_change is not None:
        yield "on_change needs read='appends'.", "Leave it out."


def target_faults(sources: Mapping[str, Source], properties: Mapping[str, str]) -> Iterator[Fault]:
    """Yield the faults of a request with incremental sources: two equal flows, or properties that lose offsets."""
    flows = [
        source.path if source.incremental == BY_ADDRESS else source.incremental
        for source in sources.values()
        if source.incremental is not None
    ]
    if len(set(flows)) < len(flows):
        yield "Two incremental sources have the same flow.", "Give `incremental` a different name in each of them."
    if flows:
        yield from retention_faults(properties, "the offsets of incremental sources")
