"""A vacuum with the shortest retention keeps the rows of tables that other engines wrote.

Each test copies a golden table and vacuums the copy ten years from now, so that only the newest version is inside the
retention. A vacuum rejects a table that this release does not write, and leaves it unchanged.
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
from tests.support.golden import UNWRITABLE, one_per_feature, rows_of
from tests.support.tables import folder_content

IN_TEN_YEARS = time.time_ns() // 1_000_000 + 3650 * DAY_MS


@pytest.mark.slow
@pytest.mark.parametrize("name", one_per_feature("read", without=UNWRITABLE))
def test_the_newest_version_keeps_its_rows(golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    before = rows_of(DeltaTable(str(table)).to_arrow())
    result = vacuum(None, VacuumRequest(table=str(table)), clock_ms=lambda: IN_TEN_YEARS)
    assert rows_of(DeltaTable(str(table)).to_arrow()) == before
    assert result.operation == "VACUUM END"


@pytest.mark.parametrize("name", UNWRITABLE)
def test_an_unwritable_table_is_rejected_and_stays_unchanged(golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    before = folder_content(table)
    with pytest.raises(UnsupportedFeatureError, match=UNWRITABLE[name]):
        vacuum(None, VacuumRequest(table=str(table)), clock_ms=lambda: IN_TEN_YEARS)
    assert folder_content(table) == before
