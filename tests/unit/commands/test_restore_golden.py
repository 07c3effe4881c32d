"""A restore of a table that another engine wrote gives the rows of the older version.

If a restore is not allowed, the error names the reason, and the table stays unchanged.
"""

from __future__ import annotations

import shutil

import pytest

from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.errors import (
    AppendOnlyError,
    CorruptDataFileError,
    CorruptLogError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltalite.inspection.verify import verify
from deltalite.requests import RestoreRequest
from deltalite.storage.local import LocalLogStore
from tests.support.golden import UNWRITABLE, one_per_feature, rows_of
from tests.support.tables import folder_content

APPEND_ONLY = "trino/deltalake/append_only"


@pytest.mark.slow
@pytest.mark.parametrize("name", one_per_feature("read", without={*UNWRITABLE, APPEND_ONLY}, at_most=15))
def test_an_older_version_is_restored_exactly(golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    head = DeltaTable(str(table)).version
    for version in sorted({0, head // 2, max(head - 1, 0)}):
        rows = rows_at(table, version)
        if rows is None:
            continue
        findings_before = findings_of(table)
        result = restore(None, RestoreRequest(table=str(table), version=version))
        assert rows_at(table) == rows
        assert result.read_version >= head
        assert findings_of(table) <= findings_before


@pytest.mark.parametrize(
    ("name", "error", "problem"),
    [
        *((name, UnsupportedFeatureError, reason) for name, reason in UNWRITABLE.items()),
        (APPEND_ONLY, AppendOnlyError, "would remove 2 files"),
    ],
)
def test_a_restore_that_is_not_allowed_is_rejected_and_changes_nothing(golden, tmp_path, name, error, problem):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    before = folder_content(table)
    with pytest.raises(error, match=problem):
        restore(None, RestoreRequest(table=str(table), version=0))
    assert folder_content(table) == before


def rows_at(table, version=None):
    """The rows of a version, or None if the version or one of its files is missing or damaged."""
    try:
        return rows_of(DeltaTable(str(table), version=version).to_arrow())
    except (CorruptDataFileError, CorruptLogError, VersionNotFoundError):
        return None


def findings_of(table):
    return {(finding.kind, finding.message) for finding in verify(LocalLogStore(str(table))).findings}
