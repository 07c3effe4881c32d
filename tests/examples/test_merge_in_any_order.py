"""The merge of `customers_upsert` gives the same rows in any order of its days, also when days are cleared."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.requests import MergeClause, MergeRequest, OnRerun, RunIdentity, Source
from tests.examples.dag_runs import example
from tests.support.tables import write_rows

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
DAYS = 4
START = datetime(2026, 3, 1, tzinfo=UTC)


def changes_of(rng: random.Random, day: int) -> list[dict]:
    """Return changes of six customers, at different times. Some changes are late."""
    changes = []
    for number in range(8):
        changed_at = START + timedelta(days=rng.randrange(day + 1), hours=day, seconds=number)
        name = f"c{rng.randrange(6)}"
        changes.append(
            {
                "customer": name,
                "email": f"{day}-{number}@x",
                "country": rng.choice(["DE", "FR"]),
                "changed_at": changed_at.isoformat(),
                "deleted": rng.choice([True, False, None]),
            }
        )
    return changes


def expected_emails(days: list[list[dict]]) -> dict[str, tuple]:
    """Return the email of each customer in its newest change, or None if that change deletes the customer."""
    changes = sorted((change for day in days for change in day), key=lambda change: change["changed_at"])
    newest = {change["customer"]: change for change in changes}
    return {name: (None if change["deleted"] else change["email"]) for name, change in newest.items()}


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(5))
def test_each_customer_has_the_newest_change_after_any_order_of_days_and_clears(spark, tmp_path, seed):
    rng = random.Random(seed)
    days = [changes_of(rng, day) for day in range(DAYS)]
    for day, changes in enumerate(days):
        (tmp_path / f"{day}.json").write_text("\n".join(map(json.dumps, changes)))
    task = example("customers_upsert").get_task("merge")
    schema, table = task.source["schema"], str(tmp_path / "t")
    columns = "CAST(NULL AS STRING) AS customer, CAST(NULL AS STRING) AS email, CAST(NULL AS STRING) AS country"
    write_rows(spark, table, f"SELECT {columns}, TIMESTAMP'2026-01-01' AS changed_at, false AS deleted LIMIT 0")

    order = [*range(DAYS), *rng.sample(range(DAYS), 2)]  # two days run again, after a clear
    rng.shuffle(order)
    for number, day in enumerate(order):
        interval = {"data_interval_start": (START + timedelta(days=day)).isoformat()}
        run = {"dag_id": "customers_upsert", "task_id": "merge", "run_id": f"day {day}", "map_index": -1}
        generation = order[:number].count(day)
        identity = RunIdentity(
            app_id=f"airflow/customers_upsert/merge/-1/day {day}", details={**run, **interval},
            txn_version=generation, generation=generation, on_rerun=OnRerun.WRITE, request_digest="1:same",
        )  # fmt: skip
        result = merge(
            spark,
            MergeRequest(
                table=table,
                sources={"source": Source(format="json", path=str(tmp_path / f"{day}.json"), schema=schema)},
                query=task.query,
                on=task.on,
                when_matched=tuple(MergeClause(**clause) for clause in task.when_matched),
                when_not_matched=tuple(MergeClause(**clause) for clause in task.when_not_matched),
                out_of_order=task.out_of_order,
                identity=identity,
            ),
        )
        assert result.committed
    rows = DeltaTable(table).to_arrow().to_pylist()
    assert {row["customer"]: row["email"] for row in rows} == expected_emails(days), f"in the order {order}"
    assert len(rows) == len(expected_emails(days))
