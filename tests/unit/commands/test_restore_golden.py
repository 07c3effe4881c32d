"""A restore of tables of other engines gives the rows of the older version.

A restore that is not possible is rejected by name, and the table stays unchanged.
"""

from __future__ import annotations

import shutil

import pytest

from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.errors import AppendOnlyError, CorruptDataFileError, DeltaLiteError, UnsupportedFeatureError
from deltalite.inspection.verify import verify
from deltalite.requests import RestoreRequest
from deltalite.storage.local import LocalLogStore
from tests.support.golden import one_per_feature, rows_of
from tests.support.tables import everything


@pytest.mark.slow
@pytest.mark.parametrize("name", one_per_feature("read"))
def test_an_older_version_is_restored_exactly(golden, tmp_path, name):
    table = tmp_path / "t"
    shutil.copytree(golden / "tables" / name, table)
    head = DeltaTable(str(table)).version
    for version in sorted({0, head // 2, head - 1}):
        rows = rows_at(table, version)
        if rows is None:
            continue
        files, faults = everything(table), faults_of(table)
        try:
            result = restore(None, RestoreRequest(table=str(table), version=version))
        except (AppendOnlyError, CorruptDataFileError, UnsupportedFeatureError):
            assert everything(table) == files
            continue
        assert rows_at(table) == rows
        assert result.read_version >= head
        assert faults_of(table) <= faults


def rows_at(table, version=None):
    try:
        return rows_of(DeltaTable(str(table), version=version).to_arrow())
    except DeltaLiteError:  # beyond what the log or the folder has, or this release reads
        return None


def faults_of(table):
    return {(finding.kind, finding.message) for finding in verify(LocalLogStore(str(table))).findings}
