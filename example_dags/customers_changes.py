"""Follow the changes of one table into another: a copy of the customers for analysts, without email addresses.

Each DAG run merges into `customers_for_analysts` what is new in the change data feed of `customers`. The first run
copies the table. Each merge commits the last loaded version together with the rows. So each change is merged exactly
once. This also holds for retries, clears, concurrent runs, and runs in another order.

A day without changes starts no Spark job and returns `skipped`. The Airflow Variable `lake` names the folder of the
tables.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"

with DAG(
    dag_id="customers_changes",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START merge_changes]
    DeltaMergeOperator(
        task_id="merge",
        table=f"{LAKE}/customers_for_analysts",
        source={"format": "delta", "path": f"{LAKE}/customers", "incremental": True, "read": "changes"},
        # Take the last change of each customer. Within one version, an added row takes precedence over a deleted one.
        query="""
            SELECT last.customer, last.country, last.changed_at, last._change_type = 'delete' OR last.deleted AS deleted
            FROM (
                SELECT max_by(struct(*), struct(_commit_version, _change_type <> 'delete')) AS last
                FROM source
                WHERE _change_type <> 'update_preimage'
                GROUP BY customer
            )
        """,
        on="target.customer = source.customer",
        when_matched=[{"delete": True, "condition": "source.deleted"}, {"update": "*"}],
        when_not_matched=[
            {
                "insert": {
                    "customer": "source.customer",
                    "country": "source.country",
                    "changed_at": "source.changed_at",
                },
                "condition": "NOT source.deleted",
            }
        ],
        create_if_missing=True,
        properties={"delta.enableDeletionVectors": "true"},
    )
    # [END merge_changes]
