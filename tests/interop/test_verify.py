"""`verify` reports no findings for tables that delta-rs wrote, optimized and vacuumed."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake

from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.support.valid_table import edit_commit, edit_stats

pytestmark = pytest.mark.interop


def rows(first, count, day):
    """Return rows with long texts, which Parquet footers or the statistics of the log truncate."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": [f"{'az'[i % 2] * 100}{i}" for i in ids],
            "odd": ["é" * 70, "\U0010ffff" * 30, *[None] * (count - 2)],
            "amount": pa.array([i / 4 for i in ids], pa.float64()),
            "at": pa.array([dt.datetime(2026, 1, 1, 0, 0, 0, i + 1, dt.UTC) for i in ids]),
            "day": [day] * count,
        }
    )


@pytest.fixture
def table_folder(tmp_path):
    """A table of delta-rs with four commits, partitioned by day."""
    for number, day in enumerate(["2026-01-01", "2026-01-02", "a b/%ü", "2026-01-01"]):
        write_deltalake(tmp_path, rows(number * 10, 10, day), mode="append", partition_by=["day"])
    return tmp_path


def test_verify_has_no_findings_after_a_delete_a_checkpoint_and_an_optimize_of_delta_rs(table_folder):
    table = DeltaRsTable(table_folder)
    table.delete("id < 5")
    table.create_checkpoint()
    table.optimize.compact()
    write_deltalake(table_folder, rows(90, 10, "2026-01-03"), mode="append")
    report = verify(LocalLogStore(str(table_folder)))
    assert report.findings == ()
    assert report.readable == report.rebuildable == ((0, 6),)
    assert (report.checked.checkpoints, report.checked.footers) == (1, report.checked.files)


def test_verify_has_no_findings_for_versions_that_a_vacuum_of_delta_rs_made_unreadable(table_folder):
    table = DeltaRsTable(table_folder)
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    report = verify(LocalLogStore(str(table_folder)))
    assert report.findings == ()
    newest = table.version()
    assert report.rebuildable == ((0, newest),)
    # The vacuum deleted the two compacted files of one day, which all versions before the compaction need.
    assert report.readable == ((4, newest),)
    assert all(DeltaRsTable(table_folder, version=v).to_pyarrow_table().num_rows == 40 for v in range(4, newest + 1))


def test_full_bounds_of_the_log_do_not_contradict_truncated_bounds_of_the_footer(tmp_path):
    write_deltalake(tmp_path, pa.table({"text": ["a" * 100, "z" * 100]}))
    [file] = tmp_path.glob("*.parquet")
    bounds = pq.read_metadata(file).row_group(0).column(0).statistics
    assert bounds.min < "a" * 100 and bounds.max > "z" * 100
    store = LocalLogStore(str(tmp_path))
    edit_commit(store, 0, "add", edit_stats(lambda stats: stats.update(minValues={"text": "a" * 100})))
    edit_commit(store, 0, "add", edit_stats(lambda stats: stats.update(maxValues={"text": "z" * 100})))
    assert verify(store).findings == ()
    edit_commit(store, 0, "add", edit_stats(lambda stats: stats.update(minValues={"text": "b"})))
    edit_commit(store, 0, "add", edit_stats(lambda stats: stats.update(maxValues={"text": "y"})))
    [finding] = verify(store).findings
    assert "minimum of column 'text' is 'b'" in finding.message
