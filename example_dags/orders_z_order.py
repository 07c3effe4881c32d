"""Each night the orders of the last days are put near to their like.

Queries look orders up by customer and by country. Along a Z curve of both, a file holds few customers and few
countries, so its statistics exclude it from most queries. Only the partitions of the last seven days are looked at:
older ones have been ordered by an earlier run and get no new rows. What is ordered already is left alone, so a second
run costs a look at the log. No row changes, and loads that run meanwhile are not in the way. The Airflow Variable
`lake` says where the tables are.
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
