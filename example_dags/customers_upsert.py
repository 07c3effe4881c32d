"""The changes of a customer database become a Delta table: an upsert that deletes, too.

Every day the source delivers what has changed as lines of JSON: new and changed customers, and those that were deleted.
One merge brings the table to that state.

- A customer may have changed several times: the newest change counts, and one that is older than what the table has is
  passed over. So days may come in any order, and a day that is merged again changes nothing.
- A retry never merges twice, and the merge is one commit: nobody reads half of a day.
- The table keeps deletion vectors, so only changed rows are written, and a change data feed for those who follow it.
- Its versions can be read for 400 days, by their own times: `customers_as_of_day` computes from them.

A deletion leaves nothing behind that a late, older change could be compared with. Where that happens, keep deleted
customers with a flag instead. The Airflow Variables `landing` and `lake` say where the changes and the tables are.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator, DeltaWriteOperator

CUSTOMERS = "{{ var.value.get('lake', '/data/lake') }}/customers"
CHANGES = {
    "format": "json",
    "path": "{{ var.value.get('landing', '/data/landing') }}/customers/{{ ds }}/*.json",
    "schema": "customer STRING, email STRING, country STRING, changed_at TIMESTAMP, deleted BOOLEAN",
}

with DAG(
    dag_id="customers_upsert",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    # [START create]
    create = DeltaWriteOperator(
        task_id="create",
        table=CUSTOMERS,
        source=CHANGES,
        query="SELECT customer, email, country, changed_at FROM source LIMIT 0",
        mode="ignore",  # a table that is there is left as it is
        properties={
            "delta.enableDeletionVectors": "true",
            "delta.enableChangeDataFeed": "true",
            # The table as it was at the end of a day can be asked for, for so long, and by the commits' own times.
            "delta.enableInCommitTimestamps": "true",
            "delta.logRetentionDuration": "interval 400 days",
            "delta.deletedFileRetentionDuration": "interval 400 days",
        },
    )
    # [END create]
    # [START merge]
    merge = DeltaMergeOperator(
        task_id="merge",
        table=CUSTOMERS,
        source=CHANGES,
        # Two rows of the source for one of the table would be refused: of each customer the newest change is taken.
        query="""
            SELECT newest.customer, newest.email, newest.country, newest.changed_at,
                   coalesce(newest.deleted, false) AS deleted
            FROM (SELECT max_by(struct(*), changed_at) AS newest FROM source GROUP BY customer)
            WHERE newest.customer IS NOT NULL
        """,
        on="target.customer = source.customer",
        when_matched=[
            {"delete": True, "condition": "source.deleted AND source.changed_at > target.changed_at"},
            {"update": "*", "condition": "NOT source.deleted AND source.changed_at > target.changed_at"},
        ],
        when_not_matched=[{"insert": "*", "condition": "NOT source.deleted"}],
    )
    # [END merge]
    create >> merge
