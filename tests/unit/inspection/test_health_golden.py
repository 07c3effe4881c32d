"""The measures of tables of other engines: they agree with the expected state of each table, and with each other."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from deltalite import DeltaTable
from deltalite.inspection.due_steps import decide
from deltalite.inspection.health import TableHealth, read_health
from deltalite.requests import Step, Thresholds
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.golden import expected_metadata, one_per_feature


def health(path: str, *, now_ms: int | None = None, **thresholds: int) -> TableHealth:
    """The measures of a table at a time, by default now."""
    time_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    return read_health(Snapshot.load(LocalLogStore(path)), Thresholds(**thresholds), now_ms=time_ms)


@pytest.mark.parametrize("name", one_per_feature("read", "read-count-only"))
def test_a_table_of_another_engine_is_measured(golden, name):
    path = str(golden / "tables" / name)
    measured, expected = health(path), expected_metadata(golden, name)
    assert (measured.version, measured.files) == (expected["version"], expected["num_files"])
    assert measured.size_bytes == DeltaTable(path).detail()["sizeInBytes"]
    if measured.rows is not None:
        assert measured.rows - measured.deleted_rows == expected["num_rows"]

    with_huge_target = health(path, target_file_size=2**60)
    assert (with_huge_target.small_files, with_huge_target.small_bytes) == (measured.files, measured.size_bytes)
    assert health(path, target_file_size=1).small_bytes == 0

    before_all_commits = health(path, now_ms=0)
    assert (before_all_commits.dead_files, before_all_commits.dead_bytes) == (0, 0)
    assert before_all_commits.retained_bytes == measured.dead_bytes + measured.retained_bytes

    assert measured.files_to_rewrite <= measured.files
    decisions = decide(replace(measured, deleted_rows=0), Thresholds(min_small_files=1))
    assert [decision.step for decision in decisions] == list(Step)
    assert decisions[0].is_due == (measured.files_to_rewrite > 0)
