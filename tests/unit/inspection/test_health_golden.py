"""The measures of tables of other engines: each readable table has them, and they agree with the table's detail."""

from __future__ import annotations

import time

import pytest

from deltalite import DeltaTable
from deltalite.inspection.due_steps import decide
from deltalite.inspection.health import read_health
from deltalite.requests import Thresholds
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.golden import one_per_feature


@pytest.mark.parametrize("name", one_per_feature("read", "read-count-only"))
def test_a_table_of_another_engine_is_measured(golden, name):
    path = str(golden / "tables" / name)
    measured = read_health(Snapshot.load(LocalLogStore(path)), Thresholds(), now_ms=time.time_ns() // 1_000_000)
    detail = DeltaTable(path).detail()
    assert (measured.files, measured.size_bytes) == (detail["numFiles"], detail["sizeInBytes"])
    assert measured.files_to_rewrite <= measured.files
    assert measured.dead_files == 0 or measured.dead_bytes >= 0
    assert len(decide(measured, Thresholds())) == 3
