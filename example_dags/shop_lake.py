"""Build a lake from files to a report, with one trigger: the bronze, silver and gold tables of a shop.

A shop delivers CSV files of orders and JSON files of customers into the landing folder, at any time and in any order.
One run of this DAG loads the new files, and takes their rows through all tables:

| task | table | rows |
|---|---|---|
| `load_orders` | `bronze/orders` | each line of each file, once, as it is |
| `load_customers` | `bronze/customers` | each change of a customer, once |
| `reject_orders` | `bronze/rejected_orders` | the lines that are not orders, for a person to look at |
| `keep_history` | `silver/customers` | the values of each customer, with the time for which they were valid |
| `merge_orders` | `silver/orders` | one row for each order: its newest valid line |
| `report` | `gold/revenue` | the revenue of each day, by the segment of the customer at the time of the order |
| `maintain` | all | packs small files, writes checkpoints and vacuums, where it is due |

- The bronze tables record which files they have loaded. The silver tables record which versions of the bronze tables
  they have loaded. So a retry, a clear or another run loads nothing twice.
- A single bad line goes to `rejected_orders`. If too many lines are bad, an audit fails the task, and `silver/orders`
  stays as it was. Deliver a corrected file, and trigger the DAG again.
- The report replaces the days from the first changed day on. Each of them starts the DAG `shop_revenue_of_day`.
- If a run fails, clear its failed tasks. A later run loads their rows, but only the failed run knows all days that its
  report must replace.

The Airflow Variables `landing` and `lake` name the folders of the files and of the tables.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from typing import Any

import airflow.sdk
from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import DAG, get_current_context, task

from airflow_provider_deltalite.assets.delta import delta_asset, partition_values
from airflow_provider_deltalite.operators.delta import (
    DeltaCopyOperator,
    DeltaLakeMaintenanceOperator,
    DeltaMergeOperator,
    DeltaScdOperator,
    DeltaWriteOperator,
)

LANDING = "{{ var.value.get('landing', '/data/landing') }}"
SHOP = "{{ var.value.get('lake', '/data/lake') }}/shop"
# The address of an asset cannot be a template.
REVENUE = delta_asset(f"{os.environ.get('AIRFLOW_VAR_LAKE', '/data/lake')}/shop/gold/revenue")
STARTS_DAGS_BY_PARTITION = hasattr(airflow.sdk, "PartitionedAssetTimetable")  # Airflow 3.2 and later
SETTINGS = {
    "start_date": datetime(2026, 3, 1, tzinfo=UTC),
    "default_args": {"retries": 2, "retry_delay": timedelta(minutes=1)},
    "tags": ["deltalite", "example"],
}

# [START queries]
# Bronze holds texts. A text that is not a number or a time becomes null.
TYPED_ORDERS = """
WITH orders AS (
    SELECT
        try_cast(trim(order_id) AS BIGINT)        AS order_id,
        nullif(trim(customer), '')                AS customer,
        try_cast(trim(amount) AS DECIMAL(12, 2))  AS amount,
        try_cast(trim(ordered_at) AS TIMESTAMP)   AS ordered_at,
        try_cast(trim(sent_at) AS TIMESTAMP)      AS sent_at,
        struct(source.*)                          AS line
    FROM source
)
"""
IS_VALID = "order_id IS NOT NULL AND amount IS NOT NULL AND ordered_at IS NOT NULL AND sent_at IS NOT NULL"
REVENUE_OF_DAYS = """
SELECT orders.day, customers.segment, count(*) AS orders, CAST(sum(orders.amount) AS DECIMAL(18, 2)) AS revenue
FROM orders LEFT JOIN customers
    ON customers.customer = orders.customer
    AND customers.valid_from <= orders.ordered_at
    AND (customers.valid_to > orders.ordered_at OR customers.valid_to IS NULL)
WHERE orders.day >= DATE'{{ ti.xcom_pull('first_changed_day') }}'
GROUP BY orders.day, customers.segment
"""
# [END queries]


# [START first_changed_day]
@task
def first_changed_day(*results: dict[str, Any]) -> str:
    """Return the first day whose report can change, or skip the report if nothing is new."""
    days = [result["partitions"] for result in results if "partitions" in result]
    if not days:
        raise AirflowSkipException("No order and no customer has changed.")
    if None in days:  # a result names at most 100 partitions
        return "0001-01-01"
    return min(partition.removeprefix("day=") for partitions in days for partition in partitions)


# [END first_changed_day]


with DAG("shop_lake", schedule="@hourly", catchup=False, max_active_runs=1, doc_md=__doc__, **SETTINGS):
    # [START bronze]
    load_orders = DeltaCopyOperator(
        task_id="load_orders",
        table=f"{SHOP}/bronze/orders",
        source={
            "format": "csv",
            "path": LANDING,
            "options": {"header": "true", "multiLine": "true", "escape": '"'},
            "schema": (
                "order_id STRING, customer STRING, country STRING, amount STRING, note STRING, "
                "ordered_at STRING, sent_at STRING"
            ),
        },
        pattern="orders*.csv",
        file_column="file",
    )
    load_customers = DeltaCopyOperator(
        task_id="load_customers",
        table=f"{SHOP}/bronze/customers",
        source={
            "format": "json",
            "path": LANDING,
            "schema": "customer STRING, country STRING, segment STRING, changed_at TIMESTAMP, deleted BOOLEAN",
        },
        pattern="customers*.json",
        query="SELECT *, CAST(changed_at AS DATE) AS day FROM source",
        partition_by=["day"],
    )
    # [END bronze]
    # [START reject]
    reject_orders = DeltaWriteOperator(
        task_id="reject_orders",
        table=f"{SHOP}/bronze/rejected_orders",
        source={"format": "delta", "path": f"{SHOP}/bronze/orders", "incremental": True},
        query=f"{TYPED_ORDERS} SELECT line.* FROM orders WHERE NOT ({IS_VALID})",
    )
    # [END reject]
    # [START history]
    keep_history = DeltaScdOperator(
        task_id="keep_history",
        table=f"{SHOP}/silver/customers",
        source={"format": "delta", "path": f"{SHOP}/bronze/customers", "incremental": True},
        keys=["customer"],
        sequence_by="changed_at",
        delete_when="deleted",
        exclude=["changed_at", "deleted", "day"],  # valid_from has the time of a change
    )
    # [END history]
    # [START merge]
    merge_orders = DeltaMergeOperator(
        task_id="merge_orders",
        table=f"{SHOP}/silver/orders",
        source={"format": "delta", "path": f"{SHOP}/bronze/orders", "incremental": True},
        query=f"""{TYPED_ORDERS}
            SELECT order_id, customer, amount, ordered_at, sent_at, CAST(ordered_at AS DATE) AS day
            FROM orders WHERE {IS_VALID}""",
        deduplicate={"keys": ["order_id"], "order_by": "sent_at"},
        on="target.order_id = source.order_id",
        when_matched=[{"update": "*", "condition": "source.sent_at > target.sent_at"}],
        when_not_matched=[{"insert": "*"}],
        create_if_missing=True,
        partition_by=["day"],
        audits=[
            {"name": "positive amount", "rows": "amount <= 0", "max_share": 0.01},
            {"name": "has customer", "rows": "customer IS NULL", "max_share": 0.05},
            {
                "name": "known customer",
                "references": {"customer": "customer"},
                "in_table": f"{SHOP}/silver/customers",
                "max_share": 0.05,
                "level": "warn",
            },
            {"name": "growth", "row_count": True, "max_change": 1.0, "level": "warn"},
        ],
        out_of_order="allow",  # the newest line of an order wins in any order of the runs
    )
    # [END merge]
    # [START report]
    report = DeltaWriteOperator(
        task_id="report",
        table=f"{SHOP}/gold/revenue",
        sources={
            "orders": {"format": "delta", "path": f"{SHOP}/silver/orders"},
            "customers": {"format": "delta", "path": f"{SHOP}/silver/customers"},
        },
        query=REVENUE_OF_DAYS,
        mode="overwrite",
        replace_where="day >= DATE'{{ ti.xcom_pull('first_changed_day') }}'",
        partition_by=["day"],
        audits=[
            {"name": "segment exists", "references": {"segment": "segment"}, "in_table": f"{SHOP}/silver/customers"},
            {
                "name": "share without segment",
                "aggregate": "sum(if(segment IS NULL, orders, 0)) / sum(orders)",
                "max": 0.1,
            },
        ],
        out_of_order="allow",  # the report of a day is the same in any order of the runs
        outlets=[REVENUE],
        partition_events=STARTS_DAGS_BY_PARTITION,
    )
    # [END report]
    # [START maintain]
    maintain = DeltaLakeMaintenanceOperator(
        task_id="maintain", pattern=f"{SHOP}/*/*", max_seconds=1800, trigger_rule="none_failed"
    )
    # [END maintain]
    # [START order]
    load_orders >> reject_orders
    load_customers >> keep_history
    [load_orders, keep_history] >> merge_orders
    first_changed_day(merge_orders.output, load_customers.output) >> report
    [reject_orders, keep_history, report] >> maintain
    # [END order]


# [START revenue_of_day]
@task
def revenue_of_day() -> list[dict[str, Any]]:
    """Return the revenue of this run's day. The worker reads the table without Spark."""
    from deltalite import DeltaTable

    day = str(partition_values(get_current_context()["dag_run"].partition_key)["day"])
    revenue = DeltaTable(REVENUE.uri).to_arrow(filter=[("day", "=", date.fromisoformat(day))])
    return [{**row, "day": day, "revenue": str(row["revenue"])} for row in revenue.sort_by("segment").to_pylist()]


if STARTS_DAGS_BY_PARTITION:
    with DAG("shop_revenue_of_day", schedule=airflow.sdk.PartitionedAssetTimetable(assets=REVENUE), **SETTINGS):
        revenue_of_day()
# [END revenue_of_day]
