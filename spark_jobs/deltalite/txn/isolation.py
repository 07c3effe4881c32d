"""Isolation levels of a commit.

- `Serializable`: the table's history is the order of its versions.
- `WriteSerializable`: a blind append that won against this commit may count as a later commit.
- `SnapshotIsolation`: rows that another writer adds do not conflict. A file that another writer removes conflicts if
  this commit read it, removes it or adds it again. This level is sufficient for a commit that changes no rows.

The table property `delta.isolationLevel` selects `Serializable` or `WriteSerializable`. delta-spark: isolationLevels.
"""

from __future__ import annotations

from enum import Enum


class IsolationLevel(Enum):
    """The levels, with their names in `delta.isolationLevel` and `commitInfo.isolationLevel`."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"
