"""What a command wants to commit, as one value.

A proposal is made on one snapshot and remembers what was read from it, because that is what decides whether a commit of
another writer contradicts it. Protocol: Commit Provenance Information; names as delta-spark writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltalite.protocol.actions import AddFile, Metadata, Protocol, RemoveFile, SetTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSet:
    """What the operation looked at: all rows, or the files of `keys` (see `file_key`)."""

    whole_table: bool = False
    keys: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was read."""
        return not self.whole_table and not self.keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How history shows the commit: Spark's operation name, parameters and metrics."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The actions of one commit and what they rest on. `read_version` is -1 where there was no table yet."""

    read_version: int
    operation: Operation
    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txn: SetTransaction | None = None
    reads: ReadSet = field(default_factory=ReadSet)

    @property
    def is_blind_append(self) -> bool:
        """It only adds files, and read nothing to decide which. Protocol: `isBlindAppend` as delta-spark defines it."""
        return not self.removes and self.reads.is_empty

    @property
    def may_rebase(self) -> bool:
        """Whether the same actions are right on top of any commit that changes neither protocol nor metadata."""
        return self.is_blind_append and self.protocol is None and self.metadata is None

    @property
    def data_change(self) -> bool:
        """Whether any file action changes rows."""
        return any(a.data_change for a in self.adds) or any(r.data_change for r in self.removes)
