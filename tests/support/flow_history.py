"""The loads of a flow as another engine sees them: from the JSON of the commits and the Parquet files of the target.

Nothing here uses the code of flows. The expected rows are those that the source has in its versions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from deltalite import DeltaTable

OFFSET_PREFIX = "deltalite-flow/"
_ACTIONS_WITH_PATH = ("add", "cdc")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCommit:
    """A commit of a target that sets the offset of its only flow.

    - `after`: the offset before this commit, None in the first commit.
    - `to`: the new offset.
    - `paths`: the added data files.
    """

    version: int
    after: int | None
    to: int
    paths: tuple[str, ...]


def commits_of(table: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield the version and the actions of each commit in the log, in order."""
    for file in sorted((table / "_delta_log").glob("*.json")):
        yield int(file.stem), list(map(json.loads, file.read_text().splitlines()))


def load_commits(table: Path) -> list[LoadCommit]:
    """Return the loads of a table with one flow, and check that each of its commits is a load.

    The offsets must rise, and the operation parameter `flows` must name the same versions.
    """
    loads: list[LoadCommit] = []
    for version, actions in commits_of(table):
        offsets = [a["txn"] for a in actions if "txn" in a and a["txn"]["appId"].startswith(OFFSET_PREFIX)]
        assert len(offsets) == 1, f"version {version} of {table} has {len(offsets)} offsets"
        after, to = loads[-1].to if loads else None, offsets[0]["version"]
        assert after is None or after < to, f"version {version} of {table} sets the offset {to} after {after}"
        (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
        (flow_range,) = json.loads(info["operationParameters"]["flows"]).values()
        assert (flow_range["afterVersion"], flow_range["toVersion"]) == (after, to), f"version {version} of {table}"
        paths = tuple(unquote(action["add"]["path"]) for action in actions if "add" in action)
        loads.append(LoadCommit(version=version, after=after, to=to, paths=paths))
    return loads


def run_counts(table: Path) -> Counter[str]:
    """Return the number of commits of each run."""
    transactions = (action["txn"] for _, actions in commits_of(table) for action in actions if "txn" in action)
    return Counter(txn["appId"] for txn in transactions if not txn["appId"].startswith(OFFSET_PREFIX))


def changes_after(source: Path, first_version: int) -> list[dict[str, Any]]:
    """Return the rows that a flow loads if its first load is the snapshot of `first_version`: inserts, then changes.

    The columns of the change data feed are `change` and `version`; the time is left out.
    """
    snapshot_rows = DeltaTable(str(source), version=first_version).to_arrow().to_pylist()
    loaded_rows = [row | {"change": "insert", "version": first_version} for row in snapshot_rows]
    newest_version = DeltaTable(str(source)).version
    if newest_version > first_version:
        for batch in DeltaTable(str(source)).changes(from_version=first_version + 1, to_version=newest_version):
            for row in batch.to_pylist():
                del row["_commit_timestamp"]
                loaded_rows.append(row | {"change": row.pop("_change_type"), "version": row.pop("_commit_version")})
    return loaded_rows


def check_changes_once(table: Path, source: Path) -> list[LoadCommit]:
    """Check that each commit of an append has all changes of its versions, and return the loads.

    The table has the columns of the source, `change` and `version`.
    """
    loads = load_commits(table)
    expected_rows = changes_after(source, loads[0].to)
    for load in loads:
        loaded_rows = [row for path in load.paths for row in pq.read_table(table / path).to_pylist()]
        after = -1 if load.after is None else load.after
        rows_of_range = [row for row in expected_rows if after < row["version"] <= load.to]
        assert _counts(loaded_rows) == _counts(rows_of_range), f"version {load.version} loads {load.after}, {load.to}"
    assert loads[-1].to == DeltaTable(str(source)).version
    assert _counts(DeltaTable(str(table)).to_arrow().to_pylist()) == _counts(expected_rows)
    return loads


def check_balances_once(table: Path, source: Path) -> list[LoadCommit]:
    """Check that the balance of each `id` is the sum of its changes in the source, and return the loads."""
    loads, balances = load_commits(table), Counter[int]()
    for row in changes_after(source, loads[0].to):
        balances[row["id"]] += row["x"] if row["change"] in ("insert", "update_postimage") else -row["x"]
    assert loads[-1].to == DeltaTable(str(source)).version
    actual_rows = DeltaTable(str(table)).to_arrow().to_pylist()
    assert sorted((row["id"], row["x"]) for row in actual_rows) == sorted(balances.items())
    return loads


def check_no_other_files(table: Path) -> None:
    """Check that each Parquet file in the folder of a table is in its log."""
    actions = [action for _, commit_actions in commits_of(table) for action in commit_actions]
    logged_paths = {
        unquote(body["path"]) for action in actions for kind, body in action.items() if kind in _ACTIONS_WITH_PATH
    }
    files = (file.relative_to(table).as_posix() for file in table.rglob("*.parquet"))
    assert {path for path in files if not path.startswith("_delta_log/")} <= logged_paths


def _counts(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in sorted(row)) for row in rows)
