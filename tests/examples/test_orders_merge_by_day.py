"""The DAG `orders_merge_by_day` merges the corrections of each day in a mapped task."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_corrections_are_merged_by_a_task_for_each_day(examples_home, lake):
    orders = lake / "orders"
    expected_orders = {row["order_id"]: row for row in rows(orders)}
    corrected_ids = {
        day: sorted(key for key, row in expected_orders.items() if row["day"] == day)[:2]
        for day in (FIRST_DAY, SECOND_DAY)
    }
    for day, (cancelled, cheaper) in corrected_ids.items():
        folder = examples_home / "landing" / "corrections" / SECOND_DAY.isoformat() / f"day={day}"
        folder.mkdir(parents=True)
        lines = ["order_id,amount,cancelled", f"{cancelled},,true", f"{cheaper},1.25,false", "99,5.00,false"]
        (folder / "corrections.csv").write_text("\n".join(lines) + "\n")

    dag_run = run(example("orders_merge_by_day"), SECOND_DAY)

    assert dag_run.state == "success"
    newest = DeltaTable(str(orders)).version
    results = sorted(dag_run.return_values["merge"], key=lambda result: result["version"])
    assert [(result["version"], result["metrics"]["numTargetRowsDeleted"]) for result in results] == [
        (newest - 1, 1),
        (newest, 1),
    ]
    assert sorted(result["app_id"].rpartition("%2F")[2] for result in results) == [
        f"day={day}" for day in (FIRST_DAY, SECOND_DAY)
    ]
    for cancelled, cheaper in corrected_ids.values():
        del expected_orders[cancelled]
        expected_orders[cheaper]["amount"] = Decimal("1.25")
    assert {row["order_id"]: row for row in rows(orders)} == expected_orders
    touched_days = [days_of(orders, result["version"]) for result in results]
    assert sorted(touched_days, key=repr) == [{str(FIRST_DAY)}, {str(SECOND_DAY)}]


def days_of(table: Path, version: int) -> set[str]:
    """Return the days whose files a version removed or added."""
    lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    files = [body.get("add") or body.get("remove") for line in lines if (body := json.loads(line))]
    return {file["partitionValues"]["day"] for file in files if file}
