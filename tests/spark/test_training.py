"""The training job of a class archive does all its steps, so that the archive has the classes of these steps."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.jobs.training import train

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def test_the_training_job_writes_merges_and_updates_a_table(spark, tmp_path):
    train(spark, tmp_path)
    history = DeltaTable(str(tmp_path / "table")).history()
    assert [commit["operation"] for commit in history] == ["UPDATE", "MERGE", "MERGE", "WRITE"]
    assert int(history[0]["operationMetrics"]["numDeletionVectorsAdded"]) > 0
