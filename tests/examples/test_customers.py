"""The examples on customers: merge changes, read the change feed and delete a customer's data."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY, example, rows, run
from tests.examples.feeds import FORGOTTEN_CUSTOMER, expected_customers

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]


def test_the_changes_of_each_day_are_in_the_table(examples_home, upsert_runs):
    customers = DeltaTable(
        str(examples_home / "lake" / "customers"), version=upsert_runs[SECOND_DAY].return_values["merge"]["version"]
    ).to_arrow()
    deleted_rows = [row for row in customers.to_pylist() if row["deleted"]]
    assert {row["customer"]: row for row in customers.to_pylist() if not row["deleted"]} == expected_customers()
    assert customers.num_rows == len(expected_customers()) + len(deleted_rows)
    assert {row["customer"] for row in deleted_rows} == {"nobody", "Søren"}
    assert {(row["email"], row["country"]) for row in deleted_rows} == {(None, None)}


def test_a_merge_returns_the_number_of_rows_for_each_action(examples_home, upsert_runs):
    results = [upsert_runs[day].return_values["merge"] for day in (FIRST_DAY, SECOND_DAY)]
    assert [upsert_runs[day].state for day in (FIRST_DAY, SECOND_DAY)] == ["success", "success"]
    assert {(result["operation"], result["committed"], result["skipped"]) for result in results} == {
        ("MERGE", True, False)
    }
    metric_names = ("numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    assert [[result["metrics"][name] for name in metric_names] for result in results] == [[5, 5, 0, 0], [5, 1, 2, 0]]


def test_the_change_feed_of_the_customers_has_each_change(examples_home, upsert_runs):
    table, version = (
        DeltaTable(str(examples_home / "lake" / "customers")),
        upsert_runs[SECOND_DAY].return_values["merge"]["version"],
    )
    changes = [row for batch in table.changes(version, version) for row in batch.to_pylist()]
    assert sorted((row["_change_type"], row["customer"], row["country"]) for row in changes) == [
        ("insert", "太郎", "DE"),
        ("update_postimage", FORGOTTEN_CUSTOMER, "IE"),
        ("update_postimage", "Søren", None),
        ("update_preimage", FORGOTTEN_CUSTOMER, "DE"),
        ("update_preimage", "Søren", "DE"),
    ]


def test_a_customer_is_forgotten_in_both_tables(lake):
    orders, customers = rows(lake / "orders"), rows(lake / "customers")
    assert {FORGOTTEN_CUSTOMER} < {row["customer"] for row in customers}
    dag_run = run(example("customers_forget"), FIRST_DAY, conf={"customer": FORGOTTEN_CUSTOMER})
    assert dag_run.state == "success"
    assert rows(lake / "customers") == [row for row in customers if row["customer"] != FORGOTTEN_CUSTOMER]
    anonymous = {"customer": None, "note": None}
    expected = [row | anonymous if row["customer"] == FORGOTTEN_CUSTOMER else row for row in orders]
    assert rows(lake / "orders") == sorted(expected, key=repr) != orders
    assert dag_run.return_values["delete"]["metrics"]["numDeletedRows"] == 1
    changed_orders = sum(row["customer"] == FORGOTTEN_CUSTOMER for row in orders)
    assert dag_run.return_values["make_anonymous"]["metrics"]["numUpdatedRows"] == changed_orders > 0
    for table in ("orders", "customers"):
        details = json.loads(DeltaTable(str(lake / table)).history(limit=1)[0]["userMetadata"])
        assert details["user_metadata"] == "the customer asked to be forgotten"
