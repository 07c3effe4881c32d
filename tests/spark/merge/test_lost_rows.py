"""A merge that loses its computed source rows replans in the same job, and computes the source again."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.commands.merge import source
from deltalite.commands.quarantine import Quarantine
from deltalite.requests import Audit
from deltalite.spark.audits import rejecting
from tests.support.computed_rows import lose_computed_rows, remove_computed_rows
from tests.support.merging import merge_into
from tests.support.tables import rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]
UPSERT = {"matched": [{"update": "*"}], "inserts": [{"insert": "*"}]}


def test_a_merge_computes_lost_source_rows_again_and_has_every_row_once(spark, tmp_path, monkeypatch, caplog):
    write_rows(spark, tmp_path / "t", values("id, note", "1, 'old'", "2, 'old'"))
    losses = lose_computed_rows(spark, monkeypatch, source, times=2)
    result = merge_into(
        spark, tmp_path / "t", values("id, note", "2, 'new'", "3, 'new'"), "target.id = source.id", **UPSERT
    )
    assert (result.version, len(losses)) == (1, 2)
    assert rows(tmp_path / "t") == [(1, "old"), (2, "new"), (3, "new")]
    assert caplog.text.count("Replanning after the loss of an executor") == 2


def lose_rows_before_quarantine_commit(spark, monkeypatch):
    """Make a merge lose its computed source rows right before its first commit to the quarantine."""
    commit, losses = Quarantine.commit, []

    def lose_and_commit(quarantine, *arguments, **options):
        if not losses:
            losses.append(quarantine)
            remove_computed_rows(spark)
        commit(quarantine, *arguments, **options)

    monkeypatch.setattr(Quarantine, "commit", lose_and_commit)
    return losses


@pytest.mark.sample("before the first commit")
@pytest.mark.parametrize("moment", ["after the computation", "before the first commit", "in the first run"])
def test_lost_rows_are_computed_again_for_the_table_and_for_its_quarantine(spark, tmp_path, monkeypatch, moment):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    if moment != "in the first run":
        write_rows(spark, table, values("id, note", "0L, 'old'"))
    if moment == "after the computation":
        losses = lose_computed_rows(spark, monkeypatch, rejecting, times=1)
    else:
        losses = lose_rows_before_quarantine_commit(spark, monkeypatch)
    query = "SELECT id, IF(rand() < 0.5, 'bad', 'new') AS note FROM range(40)"
    merge_into(
        spark, table, query, "target.id = source.id", **UPSERT, run="r", create_if_missing=True,
        audits=(Audit(name="notes", rows="note = 'bad'", level="quarantine", max_share=1),), quarantine=str(quarantine),
    )  # fmt: skip
    assert len(losses) == 1
    merged = [row_id for row_id, note in rows(table) if note == "new"]
    rejected = [json.loads(record)["id"] for record in DeltaTable(str(quarantine)).to_arrow()["record"].to_pylist()]
    assert sorted([*merged, *rejected]) == list(range(40))
