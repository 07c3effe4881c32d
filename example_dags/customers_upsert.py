"""The changes of a customer database become a Delta table: an upsert that deletes, too.

Every day the source delivers what has changed as lines of JSON: new and changed customers, and those that were deleted.
One merge brings the table to that state.

- A customer may have changed several times: the newest change counts, and a change that is older than the table's row
  is passed over. A deleted customer stays as a row with `deleted`, without email and country, so an older change cannot
  bring the customer back.
- So days may come in any order, and a day that is merged again changes nothing. The merge therefore allows runs that
  are out of order; by default a cleared merge fails where later runs changed the same rows.
- A retry never merges twice, and the merge is one commit: nobody reads half of a day.
- The table keeps deletion vectors, so only changed rows are written, and a change data feed for those who follow it.
- Its versions can be read for 400 days, by their own times: `customers_as_of_day` computes from them.

Readers of the table leave out the deleted customers (`WHERE NOT deleted`). Two changes of one customer at the same
`changed_at` have no order: give the source a number that grows where that happens. The Airflow Variables `landing` and
`lake` say where the changes and the tables are.
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
        query="SELECT customer, email, country, changed_at, deleted FROM source LIMIT 0",
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
        # Two rows of the source for one of the table would be refused, so the newest change of each customer is taken.
        query="""
            SELECT newest.customer, newest.changed_at, coalesce(newest.deleted, false) AS deleted,
                   if(newest.deleted, NULL, newest.email) AS email,
                   if(newest.deleted, NULL, newest.country) AS country
            FROM (SELECT max_by(struct(*), changed_at) AS newest FROM source GROUP BY customer)
            WHERE newest.customer IS NOT NULL
        """,
        on="target.customer = source.customer",
        # Only a newer change counts, and a deleted customer leaves a row that an older change is compared with.
        when_matched=[{"update": "*", "condition": "source.changed_at > target.changed_at"}],
        when_not_matched=[{"insert": "*"}],
        out_of_order="allow",
    )
    # [END merge]
    create >> merge
