"""Keep the history of product prices in a Delta table, from daily lists of changes.

Every day a shop delivers the changes of its products as CSV. The table has one row for each price that a product had,
with the time from which and until which it was valid.

- A new price begins a new row. A new stock changes the row that is valid at that time.
- A removed product has no current row. If the shop sells it again, its history goes on.
- The days can run in any order, and a day can run again. The table is the same in the end.
- A retry changes nothing, and the commit of a run is complete or missing.
- If a line does not fit the schema, the task fails, and the table stays unchanged.
- If two lines of a product have the same `changed_at` and differ, the task fails and names the product.

The Airflow Variables `landing` and `lake` name the folders of the changes and of the tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaScdOperator

with DAG(
    dag_id="prices_history",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START history]
    DeltaScdOperator(
        task_id="history",
        table="{{ var.value.get('lake', '/data/lake') }}/prices_history",
        source={
            "format": "csv",
            "path": "{{ var.value.get('landing', '/data/landing') }}/prices/{{ ds }}/*.csv",
            "options": {"header": "true", "mode": "FAILFAST"},  # a wrong value fails instead of becoming NULL
            "schema": "product STRING, price DECIMAL(10, 2), stock INT, changed_at TIMESTAMP, removed BOOLEAN",
        },
        keys=["product"],
        sequence_by="changed_at",
        track=["price"],
        delete_when="removed",
        exclude=["changed_at", "removed"],  # valid_from has the time of a change
        properties={"delta.enableDeletionVectors": "true"},
    )
    # [END history]
