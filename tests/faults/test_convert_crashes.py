"""A conversion is killed at its steps: the folder is unchanged or a table, and a second attempt converts it once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.faults.killing import kill_at_steps

RUN = "airflow/dag/convert/-1/manual"


@pytest.mark.slow
def test_a_conversion_survives_kills_at_its_steps(site, tmp_path):
    template = tmp_path / "template"
    for number in range(3):
        (template / f"n={number}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), template / f"n={number}" / "a.parquet")
    steps = kill_at_steps(
        site, tmp_path, template, "convert", rows_before=None, rows_after=[(0, 0), (1, 1), (2, 2)], run=RUN,
        partition_schema="n INT",
    )  # fmt: skip
    assert any(step.startswith("os.link") for step in steps), "the conversion must commit"
    table = tmp_path / "not killed"
    assert verify(LocalLogStore(str(table))).findings == ()
    assert sorted(file.name for file in table.rglob("*.parquet")) == ["a.parquet"] * 3
