"""Every example DAG, run as a user would run it: `dag.test()` with a real database, real tasks and a real Spark.

The runs are few, because each costs a JVM; they are made once for this module, and the tests look at what they left.
What must be in the table is computed from the feed by other means: Python's own reader of CSV, and its decimals.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from deltalite import DeltaTable
from demo.feed import feed, write_feed

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[2] / "example_dags"
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
ORDERS = 400

DIES_ONCE = """\
#!/bin/sh
if [ ! -e "{tried}" ]; then : > "{tried}"; exit 137; fi
exec "{spark_submit}" "$@"
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a DAG run came to."""

    run_id: str
    state: str
    returned: dict[str, Any]
    tries: dict[str, int]


def example(dag_id: str):
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(EXAMPLES / f"{dag_id}.py")
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def run(dag, day: date, *, at: timedelta = timedelta(days=1), conf: dict[str, Any] | None = None) -> Run:
    """Run a DAG for a day; `at` is when, after its beginning, and makes the run's id.

    What mapped tasks returned is a list, in their order.
    """
    midnight = datetime.combine(day, time(tzinfo=UTC))
    done = dag.test(logical_date=midnight, run_after=midnight + at, run_conf=conf)
    tasks = done.get_task_instances()
    return Run(
        run_id=done.run_id,
        state=str(done.state),
        returned={ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in tasks},
        tries={ti.task_id: ti.try_number for ti in tasks},
    )


@pytest.fixture(scope="module")
def base(airflow_db, tmp_path_factory):
    """The folder of feed and tables, named to the DAGs by Airflow Variables."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_VAR_LAKE", str(folder / "lake"))
        patch.setenv("AIRFLOW_VAR_LANDING", str(folder / "landing"))
        yield folder


@pytest.fixture(scope="module")
def ingested(base) -> dict[date, Run]:
    """The runs of `orders_ingest` for two days; at the first, spark-submit is killed once before it does anything."""
    for day in (FIRST, SECOND):
        write_feed(base / "landing", day, orders=ORDERS)
    programs = base / "bin"
    programs.mkdir()
    stand_in = programs / "spark-submit"
    stand_in.write_text(DIES_ONCE.format(tried=base / "tried", spark_submit=shutil.which("spark-submit")))
    stand_in.chmod(0o755)
    dag = example("orders_ingest")
    dag.get_task("load").retry_delay = timedelta(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        first = run(dag, FIRST)
    return {FIRST: first, SECOND: run(example("orders_ingest"), SECOND)}


@pytest.fixture
def without_spark(tmp_path, monkeypatch) -> Path:
    """A worker whose spark-submit must not be called; the file that says that it was."""
    called = tmp_path / "called"
    stand_in = tmp_path / "bin" / "spark-submit"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\n: > "{called}"\nexit 1\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}")
    return called


def amount_of(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip(" ")).quantize(Decimal("0.01"))
    except InvalidOperation:
        return None


def expected_orders(day: date) -> dict[int, dict[str, Any]]:
    """The rows that the feed of a day must become, by their ids."""
    newest: dict[int, dict[str, str]] = {}
    for line in csv.DictReader(StringIO(feed(day, orders=ORDERS), newline="")):
        if not line["order_id"].isdigit():
            continue
        order_id = int(line["order_id"])
        if order_id not in newest or line["sent_at"] > newest[order_id]["sent_at"]:
            newest[order_id] = line
    return {
        order_id: {
            "order_id": order_id,
            "customer": line["customer"].strip(" ") or None,
            "country": line["country"].strip(" ").upper() or None,
            "amount": amount_of(line["amount"]),
            "note": line["note"].strip(" ").replace("\r\n", "\n") or None,  # Spark's reader of CSV knows one line break
            "ordered_at": datetime.fromisoformat(line["ordered_at"]),
            "day": day,
        }
        for order_id, line in newest.items()
    }


def expected_totals(day: date) -> dict[str | None, tuple[int, Decimal]]:
    """Orders and revenue of each country."""
    totals: dict[str | None, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for order in expected_orders(day).values():
        count, revenue = totals[order["country"]]
        totals[order["country"]] = (count + 1, revenue + (order["amount"] or 0))
    return dict(totals)


def test_the_feed_of_each_day_is_in_the_table_clean_and_once(base, ingested):
    rows = DeltaTable(str(base / "lake" / "orders")).to_arrow().to_pylist()
    expected = expected_orders(FIRST) | expected_orders(SECOND)
    assert {row["order_id"]: row for row in rows} == expected
    assert len(rows) == len(expected)


def test_the_result_of_an_ingest_is_the_tasks_xcom(base, ingested):
    returned = ingested[SECOND].returned["load"]
    metrics = returned.pop("metrics")
    assert returned.pop("timestamp") > 0
    assert returned == {
        "table": str(base / "lake" / "orders"),
        "operation": "WRITE",
        "version": 1,
        "read_version": 0,
        "committed": True,
        "skipped": False,
        "app_id": "airflow/orders_ingest/load/-1/manual__2026-03-03T00:00:00+00:00",
        "txn_version": 0,
    }
    assert metrics["numOutputRows"] == len(expected_orders(SECOND))


def test_a_try_after_a_failed_one_commits_once_and_history_tells_which_it_was(base, ingested):
    assert ingested[FIRST].state == "success" and ingested[FIRST].tries == {"load": 2}
    history = DeltaTable(str(base / "lake" / "orders")).history()
    made_by = [json.loads(commit["userMetadata"]) for commit in history]
    assert [
        (commit["version"], run["run_id"], run["try_number"]) for commit, run in zip(history, made_by, strict=True)
    ] == [
        (1, ingested[SECOND].run_id, 1),
        (0, ingested[FIRST].run_id, 2),
    ]
    assert {(run["dag_id"], run["task_id"], run["map_index"]) for run in made_by} == {("orders_ingest", "load", -1)}


def test_the_table_forgets_runs_only_after_a_long_time(base, ingested):
    table = DeltaTable(str(base / "lake" / "orders"))
    assert table.metadata.configuration == {"delta.setTransactionRetentionDuration": "interval 90 days"}


def test_the_same_run_again_is_skipped_without_spark(base, ingested, without_spark):
    again = run(example("orders_ingest"), FIRST)
    first = ingested[FIRST].returned["load"]
    assert again.run_id == ingested[FIRST].run_id and again.state == "success"
    assert again.returned["load"] == {**first, "committed": False, "skipped": True}
    assert DeltaTable(str(base / "lake" / "orders")).version == 1
    assert not without_spark.exists()


def test_the_report_reads_the_version_of_its_days_ingest_and_not_a_newer_one(base, ingested):
    done = run(example("orders_report"), FIRST)
    orders = expected_orders(FIRST)
    assert done.state == "success" and DeltaTable(str(base / "lake" / "orders")).version == 1
    assert done.returned["wait"] == {
        "table": str(base / "lake" / "orders"),
        "version": 0,
        "after_version": -1,
        "operation": "WRITE",
        "timestamp": ingested[FIRST].returned["load"]["timestamp"],
    }
    amounts = [order["amount"] for order in orders.values()]
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    assert done.returned["summarize"] == {
        "day": "2026-03-01",
        "version": 0,
        "orders": len(orders),
        "customers": len({order["customer"] for order in orders.values()} - {None}),
        "revenue": str(sum(amount for amount in amounts if amount is not None)),
        "without_amount": amounts.count(None),
        "late": sum(order["ordered_at"] < midnight for order in orders.values()),
    }


def test_the_sensor_of_the_report_waits_in_deferral_for_a_commit_that_comes_late(base, ingested, monkeypatch):
    from airflow_provider_deltalite.triggers import delta as triggers

    log = base / "lake" / "orders" / "_delta_log"
    commit, away = log / f"{1:020}.json", base / "late.json"
    looks = []

    def look(wait, cursor):
        """Looks, and after the first look the commit lands."""
        seen = real_look(wait, cursor)
        looks.append(seen.found and seen.found["version"])
        if away.exists():
            away.rename(commit)
        return seen

    real_look = triggers.look
    monkeypatch.setattr(triggers, "look", look)
    dag = example("orders_report")
    dag.get_task("wait").poke_interval = 0.1
    commit.rename(away)
    try:
        done = run(dag, SECOND)
    finally:
        if away.exists():
            away.rename(commit)  # other tests look at the table too
    assert done.state == "success" and looks == [None, 1]
    assert done.returned["wait"]["version"] == done.returned["summarize"]["version"] == 1
    assert done.returned["summarize"]["orders"] == len(expected_orders(SECOND))


def test_a_day_of_totals_is_replaced_and_other_days_stay(base, ingested):
    for day in (FIRST, SECOND):
        assert run(example("orders_replace_day"), day).state == "success"
    again = run(example("orders_replace_day"), FIRST, at=timedelta(days=30))  # another run for the same day
    replaced = again.returned["totals"]
    assert again.returned["newest_version"] == 1
    assert (replaced["version"], replaced["skipped"]) == (2, False)
    assert replaced["metrics"]["numDeletedRows"] == replaced["metrics"]["numOutputRows"] == len(expected_totals(FIRST))

    table = DeltaTable(str(base / "lake" / "order_totals"))
    totals: dict[date, dict] = {FIRST: {}, SECOND: {}}
    for row in table.to_arrow().to_pylist():
        assert row["country"] not in totals[row["day"]]
        totals[row["day"]][row["country"]] = (row["orders"], row["revenue"])
    assert totals == {FIRST: expected_totals(FIRST), SECOND: expected_totals(SECOND)}
    assert json.loads(table.history(limit=1)[0]["operationParameters"]["predicate"]) == ["day = DATE'2026-03-01'"]


def test_each_table_gets_its_checkpoint_in_a_task_of_its_own(base, ingested):
    from deltalite.log.last_checkpoint import read_last_checkpoint
    from deltalite.storage.local import LocalLogStore

    tables = [base / "lake" / name for name in ("orders", "order_totals")]
    if not tables[1].exists():
        run(example("orders_replace_day"), FIRST)
    newest = [DeltaTable(str(table)).version for table in tables]
    assert run(example("lake_checkpoints"), FIRST).state == "success"
    assert [read_last_checkpoint(LocalLogStore(str(table))).version for table in tables] == newest
    assert [DeltaTable(str(table)).version for table in tables] == newest  # nothing was committed


def test_each_table_is_vacuumed_in_a_task_of_its_own_and_a_dry_run_only_says_so(base, ingested):
    tables = [base / "lake" / name for name in ("orders", "order_totals")]
    if not tables[1].exists():
        run(example("orders_replace_day"), FIRST)
    before = [DeltaTable(str(table)).version for table in tables]
    for table in tables:
        (table / "orphan.parquet").write_bytes(b"x" * 7)
        os.utime(table / "orphan.parquet", (0, 0))
    looked = run(example("lake_vacuum"), FIRST, conf={"dry_run": True})
    assert looked.state == "success"
    assert [one["metrics"]["sizeOfDataToDelete"] for one in looked.returned["vacuum"]] == [7, 7]
    assert [DeltaTable(str(table)).version for table in tables] == before
    done = run(example("lake_vacuum"), FIRST, at=timedelta(days=2))
    assert [one["metrics"]["numDeletedFiles"] for one in done.returned["vacuum"]] == [1, 1]
    assert [one["version"] for one in done.returned["vacuum"]] == [version + 2 for version in before]
    assert not any((table / "orphan.parquet").exists() for table in tables)


def changed(customer: str, hour: int, *, day: date, country: str = "DE", deleted: bool | None = None) -> dict[str, Any]:
    """A change of a customer, as the source delivers it."""
    at = datetime.combine(day, time(hour), UTC)
    named = {"customer": customer, "email": f"{hour}@{day}", "country": country, "changed_at": at.isoformat()}
    return named if deleted is None else named | {"deleted": deleted}


FORGOTTEN = next(
    order["customer"] for order in expected_orders(FIRST).values() if order["note"] and "'" in (order["customer"] or "")
)
CHANGES = {
    FIRST: [
        changed("Anna", 8, day=FIRST),
        changed("Anna", 9, day=FIRST, country="FR"),
        changed("Søren", 8, day=FIRST, deleted=False),
        changed(FORGOTTEN, 8, day=FIRST),
        changed("nobody", 8, day=FIRST, deleted=True),
        changed("'", 8, day=FIRST),
    ],
    SECOND: [
        changed("Søren", 9, day=SECOND, deleted=True),
        changed("Anna", 1, day=FIRST, country="US"),  # late: the table has a newer one
        changed("'", 1, day=FIRST, deleted=True),  # late, too
        changed("太郎", 7, day=SECOND),
        changed(FORGOTTEN, 7, day=SECOND, country="IE"),
    ],
}


def expected_customers() -> dict[str, dict[str, Any]]:
    """The newest change of each customer that is not deleted."""
    newest: dict[str, dict[str, Any]] = {}
    for change in [*CHANGES[FIRST], *CHANGES[SECOND]]:
        known = newest.get(change["customer"])
        if known is None or known["changed_at"] < change["changed_at"]:
            newest[change["customer"]] = change
    kept = [change for change in newest.values() if not change.get("deleted")]
    return {
        change["customer"]: {
            "customer": change["customer"],
            "email": change["email"],
            "country": change["country"],
            "changed_at": datetime.fromisoformat(change["changed_at"]),
        }
        for change in kept
    }


@pytest.fixture(scope="module")
def upserted(base) -> dict[date, Run]:
    """The runs of `customers_upsert` for two days."""
    for day, changes in CHANGES.items():
        folder = base / "landing" / "customers" / day.isoformat()
        folder.mkdir(parents=True)
        (folder / "changes.json").write_text("\n".join(map(json.dumps, changes)) + "\n", encoding="utf-8")
    return {day: run(example("customers_upsert"), day) for day in (FIRST, SECOND)}


def test_the_changes_of_each_day_are_in_the_table(base, upserted):
    rows = DeltaTable(
        str(base / "lake" / "customers"), version=upserted[SECOND].returned["merge"]["version"]
    ).to_arrow()
    assert {row["customer"]: row for row in rows.to_pylist()} == expected_customers()
    assert rows.num_rows == len(expected_customers())


def test_a_merge_says_what_it_did_to_how_many_rows(base, upserted):
    merged = [upserted[day].returned["merge"] for day in (FIRST, SECOND)]
    assert [upserted[day].state for day in (FIRST, SECOND)] == ["success", "success"]
    assert {(one["operation"], one["committed"], one["skipped"]) for one in merged} == {("MERGE", True, False)}
    counts = ("numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    assert [[one["metrics"][name] for name in counts] for one in merged] == [[5, 4, 0, 0], [5, 1, 1, 1]]


def test_those_who_follow_the_customers_see_each_change(base, upserted):
    table, version = DeltaTable(str(base / "lake" / "customers")), upserted[SECOND].returned["merge"]["version"]
    changes = [row for batch in table.changes(version, version) for row in batch.to_pylist()]
    assert sorted((row["_change_type"], row["customer"], row["country"]) for row in changes) == [
        ("delete", "Søren", "DE"),
        ("insert", "太郎", "DE"),
        ("update_postimage", FORGOTTEN, "IE"),
        ("update_preimage", FORGOTTEN, "DE"),
    ]


@pytest.fixture
def lake(base, ingested, upserted, tmp_path, monkeypatch) -> Path:
    """A copy of the tables for a test that changes them, named to the DAGs."""
    copy = shutil.copytree(base / "lake", tmp_path / "lake")
    monkeypatch.setenv("AIRFLOW_VAR_LAKE", str(copy))
    return copy


def rows(table: Path) -> list[dict[str, Any]]:
    """All rows of a table, in a fixed order."""
    return sorted(DeltaTable(str(table)).to_arrow().to_pylist(), key=repr)


def test_a_customer_who_asks_is_forgotten_in_both_tables(lake):
    orders, customers = rows(lake / "orders"), rows(lake / "customers")
    assert {FORGOTTEN} < {row["customer"] for row in customers}
    done = run(example("customers_forget"), FIRST, conf={"customer": FORGOTTEN})
    assert done.state == "success"
    assert rows(lake / "customers") == [row for row in customers if row["customer"] != FORGOTTEN]
    theirs = {"customer": None, "note": None}
    expected = [row | theirs if row["customer"] == FORGOTTEN else row for row in orders]
    assert rows(lake / "orders") == sorted(expected, key=repr) != orders
    assert done.returned["delete"]["metrics"]["numDeletedRows"] == 1
    changed_orders = sum(row["customer"] == FORGOTTEN for row in orders)
    assert done.returned["make_anonymous"]["metrics"]["numUpdatedRows"] == changed_orders > 0
    for table in ("orders", "customers"):
        said = json.loads(DeltaTable(str(lake / table)).history(limit=1)[0]["userMetadata"])
        assert said["user_metadata"] == "the customer asked to be forgotten"


def test_corrections_are_merged_by_a_task_for_each_day(base, lake):
    orders = lake / "orders"
    before = {row["order_id"]: row for row in rows(orders)}
    corrected = {day: sorted(key for key, row in before.items() if row["day"] == day)[:2] for day in (FIRST, SECOND)}
    for day, (cancelled, cheaper) in corrected.items():
        folder = base / "landing" / "corrections" / SECOND.isoformat() / f"day={day}"
        folder.mkdir(parents=True)
        lines = ["order_id,amount,cancelled", f"{cancelled},,true", f"{cheaper},1.25,false", "99,5.00,false"]
        (folder / "corrections.csv").write_text("\n".join(lines) + "\n")

    done = run(example("orders_merge_by_day"), SECOND)

    assert done.state == "success"
    newest = DeltaTable(str(orders)).version
    merged = sorted(done.returned["merge"], key=lambda one: one["version"])
    assert [(one["version"], one["metrics"]["numTargetRowsDeleted"]) for one in merged] == [
        (newest - 1, 1),
        (newest, 1),
    ]
    assert {one["app_id"].split("/")[3] for one in merged} == {"0", "1"}
    for cancelled, cheaper in corrected.values():
        del before[cancelled]
        before[cheaper]["amount"] = Decimal("1.25")
    assert {row["order_id"]: row for row in rows(orders)} == before
    touched = [days_of(orders, one["version"]) for one in merged]
    assert sorted(touched, key=repr) == [{str(FIRST)}, {str(SECOND)}]


def days_of(table: Path, version: int) -> set[str]:
    """The days whose files a version took out of the table, or put into it."""
    lines = (table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    files = [body.get("add") or body.get("remove") for line in lines if (body := json.loads(line))]
    return {file["partitionValues"]["day"] for file in files if file}
