"""Plans and reads the change data feed, and plans the rows that versions of a table append.

`table`, `spark`, `commands` and `cli` call this package. Begin with `plan.py`; `appends.py` plans appended rows.
"""

from __future__ import annotations

from deltalite.change_feed.columns import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    change_file_schema,
    reserved_column,
)
from deltalite.change_feed.plan import ChangePlan, plan_changes, read_changes

__all__ = [
    "CHANGE_COLUMNS",
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "ChangePlan",
    "change_file_schema",
    "plan_changes",
    "read_changes",
    "reserved_column",
]
