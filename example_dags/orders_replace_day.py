"""Replace the totals of one day.

The task `totals` computes the totals of one day from the table `orders`, and replaces that day in the table
`order_totals`. Other days do not change, so you can run the task again at any time. After a correction of the orders,
clear the run: the new totals replace the old totals.

The task `newest_version` runs first and returns the newest version of `orders`. Every retry of `totals` reads this
version, even if other tasks write in the meantime. The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

ORDERS = "{{ var.value.get('lake', '/data/lake') }}/orders"


# [START newest_version]
@task
def newest_version(table: str) -> int:
    """Return the newest version of a table."""
    from deltalite import DeltaTable

    return DeltaTable(table).version


# [END newest_version]


with DAG(
    dag_id="orders_replace_day",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START totals]
    orders_version = newest_version(ORDERS)
    totals = DeltaWriteOperator(
        task_id="totals",
        table="{{ var.value.get('lake', '/data/lake') }}/order_totals",
        source={
            "format": "delta",
            "path": ORDERS,
            "version_as_of": "{{ ti.xcom_pull('newest_version') }}",
        },
        query="""
            SELECT country, count(*) AS orders, CAST(sum(amount) AS DECIMAL(18, 2)) AS revenue, day
            FROM source
            WHERE day = DATE'{{ ds }}'
            GROUP BY country, day
        """,
        mode="overwrite",
        replace_where="day = DATE'{{ ds }}'",
        partition_by=["day"],
    )
    # [END totals]
    orders_version >> totals
