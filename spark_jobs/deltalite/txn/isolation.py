"""Isolation levels: how far a commit may be reordered among the commits of other writers.

- `Serializable`: the table's history is the order of its versions.
- `WriteSerializable`: a blind append that was committed before ours may count as later than ours.
- `SnapshotIsolation`: only the files that we remove can conflict. It is sufficient for a commit that changes no rows.

The table property `delta.isolationLevel` selects one of the first two. delta-spark: isolationLevels.
"""

from __future__ import annotations

from enum import Enum


class IsolationLevel(Enum):
    """The levels, with their names in `delta.isolationLevel` and `commitInfo.isolationLevel`."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"
