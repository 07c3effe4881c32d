"""How far a commit may be reordered among those of other writers: the isolation levels.

`Serializable`: the table's history is the order of its versions. `WriteSerializable`: a blind append that was committed
before ours may count as coming after it. `SnapshotIsolation`: only what we remove matters, which is enough for a commit
that changes no rows; a table asks for one of the others with `delta.isolationLevel`. delta-spark: isolationLevels.
"""

from __future__ import annotations

from enum import Enum


class IsolationLevel(Enum):
    """The levels, with the names that `delta.isolationLevel` and `commitInfo.isolationLevel` have for them."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"
