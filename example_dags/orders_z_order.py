"""Z-order the orders of the last seven days every night.

Queries filter orders by customer and by country. After a Z-order by both columns, each file contains few customers and
few countries. So a query skips most files by their statistics. The task orders only the partitions of the last seven
days. Earlier runs have ordered the older partitions, which get no new rows.

The task does not rewrite files that are already ordered, so a second run only reads the log. It changes no row, and
does not conflict with loads that run at the same time. The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaOptimizeOperator

with DAG(
    dag_id="orders_z_order",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
    tags=["deltalite", "example"],
):
    # [START z_order]
    DeltaOptimizeOperator(
        task_id="z_order",
        table="{{ var.value.get('lake', '/data/lake') }}/orders",
        where="day >= DATE'{{ macros.ds_add(ds, -6) }}'",
        z_order_by=["customer", "country"],
    )
    # [END z_order]
