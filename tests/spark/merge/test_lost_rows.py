"""A merge whose computed source rows are lost replans in the same job, and computes the source again."""

from __future__ import annotations

import pytest

from deltalite.commands.merge import source
from tests.support.merging import merge_into
from tests.support.tables import rows, values, write_rows

pytestmark = pytest.mark.spark
UPSERT = {"matched": [{"update": "*"}], "inserts": [{"insert": "*"}]}


def remove_computed_rows(spark):
    """Remove the rows that executors keep, as the loss of these executors does."""
    for rdd in spark.sparkContext._jsc.getPersistentRDDs().values():
        rdd.unpersist(True)


def lose_computed_rows(spark, monkeypatch, *, times):
    """Make a merge lose its computed source rows for the first `times` times."""
    compute_once, losses = source.compute_once, []

    def compute_and_lose(source_rows):
        computed_rows = compute_once(source_rows)
        if len(losses) < times:
            losses.append(computed_rows)
            remove_computed_rows(spark)
        return computed_rows

    monkeypatch.setattr(source, "compute_once", compute_and_lose)
    return losses


def test_a_merge_computes_lost_source_rows_again_and_has_every_row_once(spark, tmp_path, monkeypatch, caplog):
    write_rows(spark, tmp_path / "t", values("id, note", "1, 'old'", "2, 'old'"))
    losses = lose_computed_rows(spark, monkeypatch, times=2)
    result = merge_into(
        spark, tmp_path / "t", values("id, note", "2, 'new'", "3, 'new'"), "target.id = source.id", **UPSERT
    )
    assert (result.version, len(losses)) == (1, 2)
    assert rows(tmp_path / "t") == [(1, "old"), (2, "new"), (3, "new")]
    assert caplog.text.count("Replanning after the loss of an executor") == 2
