"""Merge the daily changes of a customer database into a Delta table, with deletes.

Every day the source delivers the changes as lines of JSON: new, changed and deleted customers. One merge applies them
to the table.

- The merge applies only the newest change of each customer. It ignores a change that is older than the table's row.
- A deleted customer remains as a row with `deleted`, without email and country. So an older change cannot bring the
  customer back.
- You can merge days in any order, and merging a day again changes nothing. So the merge allows out-of-order runs. By
  default, a cleared merge fails if later runs changed the same rows.
- A retry never merges twice. The merge is one commit, so no reader sees half of a day.
- The table has deletion vectors, so a merge writes only changed rows. It has a change data feed for consumers.
- You can read the table as of any time in the last 400 days, by commit time. `customers_as_of_day` does so.

Readers of the table filter out deleted customers (`WHERE NOT deleted`). Two changes of one customer with the same
`changed_at` have no order. If this can happen, add a sequence number to the source. The Airflow Variables `landing` and
`lake` name the folders of the changes and of the tables.
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
        mode="ignore",  # an existing table stays as it is
        properties={
            "delta.enableDeletionVectors": "true",
            "delta.enableChangeDataFeed": "true",
            # You can read the table as of any time in the last 400 days, by commit time.
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
        # The merge rejects two source rows for one target row, so the query takes the newest change of each customer.
        query="""
            SELECT newest.customer, newest.changed_at, coalesce(newest.deleted, false) AS deleted,
                   if(newest.deleted, NULL, newest.email) AS email,
                   if(newest.deleted, NULL, newest.country) AS country
            FROM (SELECT max_by(struct(*), changed_at) AS newest FROM source GROUP BY customer)
            WHERE newest.customer IS NOT NULL
        """,
        on="target.customer = source.customer",
        # Apply only a newer change. A deleted customer keeps a row, with which the merge compares older changes.
        when_matched=[{"update": "*", "condition": "source.changed_at > target.changed_at"}],
        when_not_matched=[{"insert": "*"}],
        out_of_order="allow",
    )
    # [END merge]
    create >> merge
