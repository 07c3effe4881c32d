"""A model of flows: the rows that a target must have, from the history of its source and the offsets in its log.

The model records each version of the source when it is committed. It then reads the target as another engine does, one
commit after the other: an offset in a commit says which versions the commit has loaded, and so which rows it added. The
model does not use the code of flows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalite import DeltaTable
from tests.support.flow_history import OFFSET_PREFIX, commits_of
from tests.support.tables import rows as rows_of

Row = tuple[int, int, str]
"""A changed row of the source: `id`, `x`, and the type of its change."""
_SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


@dataclass(kw_only=True)
class SourceVersion:
    """A version of the source: its rows, its changes, its columns, and whether it only appends rows or changes none."""

    rows: Counter[tuple[int, int]]
    changes: list[Row]
    columns: frozenset[str]
    is_append: bool


@dataclass(kw_only=True)
class TargetState:
    """The state of the target at a version: its rows by flow, and the loaded versions by flow and source table."""

    rows: dict[str, Counter[Row]] = field(default_factory=dict)
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)


class SourceModel:
    """The history of a source. A recreated source has another table id, and a new list of versions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.versions: dict[str, list[SourceVersion]] = {}
        self.table_id = ""
        self.first_commit = 0
        self.is_vacuumed = False

    @property
    def newest(self) -> int:
        """The newest version."""
        return len(self.versions[self.table_id]) - 1

    def record(self, *, is_append: bool) -> None:
        """Record the versions that the last operation committed."""
        table = DeltaTable(str(self.path))
        self.table_id = table.metadata.id
        known_versions = self.versions.setdefault(self.table_id, [])
        for version in range(len(known_versions), table.version + 1):
            changed_rows = (
                row for b in table.changes(from_version=version, to_version=version) for row in b.to_pylist()
            )
            changes = [(row["id"], row["x"], row["_change_type"]) for row in changed_rows]
            arrow_rows = DeltaTable(str(self.path), version=version).to_arrow()
            version_rows = Counter((row["id"], row["x"]) for row in arrow_rows.to_pylist())
            columns = frozenset(arrow_rows.column_names)
            known_versions.append(
                SourceVersion(rows=version_rows, changes=changes, columns=columns, is_append=is_append)
            )

    def is_gap(self, offsets: Mapping[str, int]) -> bool:
        """Whether versions are lost that a flow with these offsets needs. A flow without offsets needs none."""
        if not offsets:
            return False
        offset = offsets.get(self.table_id)
        return offset is None or self.newest < offset or (self.newest > offset and offset + 1 < self.first_commit)


class TargetModel:
    """The target's states by version. `appends` names the flows that load appended rows only."""

    def __init__(self, path: Path, source: SourceModel, appends: frozenset[str]) -> None:
        self.path, self.source, self.appends = path, source, appends
        self.states: list[TargetState] = []
        self.runs = Counter[str]()

    @property
    def newest(self) -> TargetState:
        """The state at the newest version, empty without a table."""
        return self.states[-1] if self.states else TargetState()

    def offsets(self, flow: str) -> Mapping[str, int]:
        """The loaded versions of a flow by source table."""
        return self.newest.offsets.get(flow, {})

    def loaded_rows(self, flow: str, after: int | None, to: int) -> Counter[Row]:
        """The rows of a load of the current source: its snapshot, or the changes of the versions after `after`."""
        versions = self.source.versions[self.source.table_id]
        if after is None:
            return Counter({(*row, "insert"): count for row, count in versions[to].rows.items()})
        loaded_versions = versions[after + 1 : to + 1]
        if flow in self.appends:
            return Counter(change for v in loaded_versions if v.is_append for change in v.changes)
        return Counter(change for version in loaded_versions for change in version.changes)

    def read_commits(self) -> list[tuple[str, int | None, int]]:
        """Read the new commits of the target's log. Returns the loads among them: flow, `after` and `to`."""
        loads = []
        for version, actions in commits_of(self.path) if self.path.exists() else ():
            if version < len(self.states):
                continue
            state = deepcopy(self.newest)
            (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
            offsets = {}
            for txn in (action["txn"] for action in actions if "txn" in action):
                if txn["appId"].startswith(OFFSET_PREFIX):
                    _, flow, table_id = txn["appId"].split("/")
                    offsets[flow, table_id] = txn["version"]
                else:
                    self.runs[txn["appId"]] += 1
            if info["operation"] == "RESTORE":
                state = deepcopy(self.states[int(json.loads(str(info["operationParameters"]["version"])))])
            elif info["operation"] == "ALTER TABLE":
                for (flow, table_id), offset in offsets.items():
                    state.offsets[flow][table_id] = offset
            else:
                (((flow, table_id), to),) = offsets.items()
                assert table_id == self.source.table_id
                is_snapshot = not self.offsets(flow) or self.source.is_gap(self.offsets(flow))
                flow_range = json.loads(str(info["operationParameters"]["flows"]))["source"]
                # A vacuum may have deleted files of versions that are not loaded yet.
                # The commit shows whether the flow has reloaded its source.
                is_reload = self.source.is_vacuumed and flow_range["afterVersion"] is None
                after = None if is_snapshot or is_reload else self.offsets(flow)[table_id]
                assert after is None or after < to, f"version {version} loads {after} to {to}"
                state.rows.setdefault(flow, Counter()).update(self.loaded_rows(flow, after, to))
                state.offsets.setdefault(flow, {})[table_id] = to
                loads.append((flow, after, to))
            for flow in state.offsets:
                state.offsets[flow] = {table: offset for table, offset in state.offsets[flow].items() if offset >= 0}
            self.states.append(state)
        return loads

    def check_rows(self, read: Any = rows_of) -> None:
        """Check that the target has each loaded row once (`flow`, `id`, `x`, `change`)."""
        expected_rows = Counter({(f, *row): n for f, c in self.newest.rows.items() for row, n in c.items()})
        assert Counter(read(self.path)) == expected_rows

    def check_balances(self, read: Any = rows_of) -> None:
        """Check that the target has the sum of the loaded changes of each flow and id (`flow`, `id`, `x`)."""
        sums = Counter[tuple[str, int]]()
        for flow, changes in self.newest.rows.items():
            for (row_id, x, change), count in changes.items():
                sums[flow, row_id] += _SIGNS[change] * x * count
        assert {(flow, row_id): x for flow, row_id, x in read(self.path)} == dict(sums)
