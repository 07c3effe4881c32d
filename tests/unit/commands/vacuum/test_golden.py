"""Tables of other engines have the same rows after a vacuum with the shortest retention.

Each golden table is copied, and vacuumed a long time from now: only its newest version is inside the retention. A
vacuum rejects a table that this release cannot write, and leaves it unchanged.
"""

from __future__ import annotations

import shutil
import time

import pytest

from deltalite import DeltaTable
from deltalite.commands.vacuum import vacuum
from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import VacuumRequest
from tests.support.golden import one_per_feature, rows_of
from tests.support.tables import everything

IN_TEN_YEARS = time.time_ns() // 1_000_000 + 3650 * DAY_MS


@pytest.mark.slow
@pytest.mark.parametrize("name", one_per_feature("read"))
def test_a_table_reads_the_same_after_a_vacuum_of_all_dead_files(golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    before, files = rows_of(DeltaTable(str(table)).to_arrow()), everything(table)
    try:
        result = vacuum(None, VacuumRequest(table=str(table)), clock_ms=lambda: IN_TEN_YEARS)
    except UnsupportedFeatureError:
        assert everything(table) == files
        return
    assert rows_of(DeltaTable(str(table)).to_arrow()) == before
    assert result.operation == "VACUUM END"
