"""The report of a maintenance: its counts, its bounded rows, and the error for failed tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.commands.maintain.report import MAX_ROWS, raise_for_failed_tables, result_of
from deltalite.errors import ConcurrentWriteException, CorruptLogError, MaintenanceError, MaintenanceIncompleteError
from deltalite.inspection.table_rows import Outcome, RowError, TableRow
from deltalite.markers import parse_marker, result_markers, result_parts
from deltalite.requests import MaintainRequest
from deltalite.results import OperationResult
from tests.unit.commands.maintain.rows import row

REQUEST = MaintainRequest(pattern="/lake/*")
PERMANENT = RowError.of(CorruptLogError("The log is broken.", remedy="Repair it."))
TEMPORARY = RowError.of(ConcurrentWriteException("Another writer was first.", remedy="Retry."))


def failed(name, error):
    return replace(row(name, optimize=Outcome.FAILED), error=error)


def test_the_result_counts_tables_by_status_and_steps():
    rows = [
        failed("a", PERMANENT), row("b", optimize=Outcome.DONE, vacuum=Outcome.DONE),
        row("c", optimize=Outcome.DONE_EARLIER), row("d", optimize=Outcome.NOT_REACHED), row("e"),
        row("f", optimize=Outcome.NOT_NEEDED),
    ]  # fmt: skip
    result = result_of(REQUEST, rows)
    assert result.metrics == {
        "numTables": 6, "numFailedTables": 1, "numChangedTables": 2, "numNotReachedTables": 1, "numDueTables": 1,
        "numHealthyTables": 1, "numOptimizedTables": 1, "numCheckpoints": 0, "numVacuumedTables": 1,
        "numOmittedRows": 0,
    }  # fmt: skip
    assert result.committed
    assert [r["status"] for r in result.tables] == ["failed", "changed", "changed", "not reached", "due", "healthy"]
    assert not result_of(REQUEST, [row("a", optimize=Outcome.NOT_NEEDED, checkpoint=Outcome.DONE)]).committed


def test_skipped_entries_of_a_catalog_are_counted_apart_from_tables():
    view = TableRow(table="sales.v", name="sales.v", skip_reason="it is a view")
    rows = [view, replace(failed("/lake/a", TEMPORARY), name="sales.a"), row("/lake/b", optimize=Outcome.DONE)]
    result = result_of(MaintainRequest(catalog_schema="sales"), rows)
    assert (result.metrics["numTables"], result.metrics["numSkippedTables"]) == (2, 1)
    assert [r["status"] for r in result.tables] == ["failed", "changed", "skipped"]
    with pytest.raises(MaintenanceIncompleteError, match=r"1 of 2 tables failed: sales.a \(Concurrent"):
        raise_for_failed_tables(rows, result)


def test_the_rows_are_limited_with_the_failed_and_changed_tables_first():
    rows = [row(f"t{n}", optimize=Outcome.NOT_NEEDED) for n in range(MAX_ROWS)]
    rows += [row("changed", optimize=Outcome.DONE), failed("failed", PERMANENT)]
    result = result_of(REQUEST, rows)
    assert [r["table"] for r in result.tables[:2]] == ["failed", "changed"]
    assert (len(result.tables), result.metrics["numOmittedRows"], result.metrics["numTables"]) == (MAX_ROWS, 2, 302)


@pytest.mark.parametrize("count", [1, 40, MAX_ROWS])
def test_a_result_with_rows_reaches_the_worker_in_parts(count):
    rows = [row(f"s3://lake/name-{n}", optimize=Outcome.DONE, size_bytes=n * n * 7919) for n in range(count)]
    result = result_of(REQUEST, rows)
    markers = result_markers(result, "ab12")
    parts, collected = result_parts(), None
    for marker in reversed(markers):
        parsed = parse_marker(marker, "ab12")
        assert parse_marker(marker, "other") is None
        if isinstance(parsed, OperationResult):
            collected = parsed
        else:
            assert collected is None, "the result is complete only with its last part"
            collected = parts.add(parsed)
    assert collected == result
    assert OperationResult.from_dict(result.as_dict()) == result
    assert (len(markers) > 1) is (count > 1)


def test_the_error_names_failed_tables_and_says_whether_a_retry_can_succeed():
    rows = [row("good", optimize=Outcome.DONE), failed("bad", PERMANENT)]
    result = result_of(REQUEST, rows)
    with pytest.raises(MaintenanceError, match=r"1 of 2 tables failed: bad \(CorruptLogError\)") as error:
        raise_for_failed_tables(rows, result)
    assert (type(error.value), error.value.result) == (MaintenanceError, result)
    assert "All other tables were tried, as far as the budget allows." in error.value.remedy
    with pytest.raises(MaintenanceIncompleteError, match=r"bad \(CorruptLogError\), busy \(ConcurrentWriteException\)"):
        raise_for_failed_tables([*rows, failed("busy", TEMPORARY)], result)
    with pytest.raises(MaintenanceError, match="and 2 more"):
        raise_for_failed_tables([failed(f"t{n}", PERMANENT) for n in range(12)], result)
    raise_for_failed_tables(rows[:1], result)
    assert RowError.of(ValueError("x")).is_retryable, "an unexpected error may be temporary"
