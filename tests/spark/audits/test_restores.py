"""Audits of a restore examine the restored rows before the commit."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.errors import ApprovalNeededError, AuditFailedError, InvalidRequestError
from deltalite.requests import Audit, RestoreRequest, RunIdentity
from tests.support.properties import VECTORS
from tests.support.racing import run_before_commits
from tests.support.tables import delete_rows, folder_content, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

POSITIVE = Audit(name="positive", rows="x < 0")


@pytest.fixture
def table(spark, tmp_path):
    """A table with deletion vectors. Version 1 has a row with a negative `x`, and version 3 adds the column `y`."""
    path = tmp_path / "t"
    write_rows(spark, path, values("id, x", "1, 1", "2, 2", "3, 3"), properties=VECTORS)
    write_rows(spark, path, values("id, x", "4, -4"))
    delete_rows(spark, path, "id IN (1, 4)")
    write_rows(spark, path, values("id, x, y", "5, 5, 5"), merge_schema=True)
    return path


def restore_to(spark, table, version, *audits, **options):
    return restore(spark, RestoreRequest(table=str(table), version=version, audits=audits, **options))


def test_a_failed_audit_leaves_the_table_as_it_was(spark, table):
    content = folder_content(table)
    with pytest.raises(AuditFailedError, match=r"'positive' \(rows on table\): measured 1 of 4 rows") as caught:
        restore_to(spark, table, 1, POSITIVE)
    assert "Nothing was committed." in caught.value.problem and "full vacuum" not in caught.value.problem
    assert '{"x": -4, "id": 4}' in caught.value.problem
    with pytest.raises(AuditFailedError, match=r"measured 4 rows \(3 rows before\), allowed max_change=0\.1"):
        restore_to(spark, table, 1, Audit(name="volume", row_count=True, max_change=0.1))
    with pytest.raises(ApprovalNeededError, match="'positive'"):
        restore_to(spark, table, 1, Audit(name="positive", rows="x < 0", level="ask"))
    with pytest.raises(InvalidRequestError, match="'y'"):  # version 2 does not have this column
        restore_to(spark, table, 2, Audit(name="y", rows="y < 0"))
    assert folder_content(table) == content


def test_the_commit_and_the_result_of_a_retry_have_the_results_of_the_audits(spark, table):
    audits = (POSITIVE, Audit(name="ids", unique=("id",)), Audit(name="few", row_count=True, max=1, level="warn"))
    identity = RunIdentity(app_id="run")
    result = restore_to(spark, table, 2, *audits, identity=identity)
    measured = [("positive", True, 0), ("ids", True, 0), ("few", False, 2)]
    assert [(audit.name, audit.passed, audit.measured) for audit in result.audits] == measured
    assert (result.version, rows(table)) == (4, [(2, 2), (3, 3)])
    assert "positive" in DeltaTable(str(table)).history(limit=1)[0]["operationParameters"]["audits"]
    retry = restore_to(spark, table, 2, *audits, identity=identity)
    assert (retry.skipped, retry.audits) == (True, result.audits)


def test_the_audits_also_examine_a_table_that_has_the_restored_rows_already(spark, table):
    restore_to(spark, table, 1)
    with pytest.raises(AuditFailedError, match="'positive'"):
        restore_to(spark, table, 1, POSITIVE)
    result = restore_to(spark, table, 1, Audit(name="some", row_count=True, min=4))
    assert (result.committed, [audit.passed for audit in result.audits]) == (False, [True])


def test_the_restore_that_loses_a_race_audits_again(spark, table, monkeypatch):
    """`max_change` compares the restored rows with the version that the other writer has committed."""
    volume = Audit(name="volume", row_count=True, max_change=0.5)
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, x, y", *["9, 9, 9"] * 9)))
    with pytest.raises(AuditFailedError, match="'volume'"):
        restore_to(spark, table, 2, volume)
    assert DeltaTable(str(table)).version == 4
