"""The changes of one table, followed into another: a copy of the customers for analysts, without their addresses.

Each run reads the change data feed of `customers` from where the last run has ended to the newest version, and merges
it into `customers_for_analysts`. No change is lost and none is merged twice:

- How far the copy has come stands in the copy, in the very commit that brought it there (`user_metadata`). Nothing
  that Airflow forgets, and no run that is repeated, can move that mark away from the rows.
- The range of versions is decided by a task of its own. Every try of the merge reads the same range, and a try whose
  commit had landed finds it.
- Runs go one after the other, and one that failed holds up those behind it (`depends_on_past`): clear it as a whole.

A day without changes starts no Spark. The mark is looked for in the history of the copy, so the copy keeps its log for
a year; should the mark be gone all the same, the task says so instead of beginning anew. The Airflow Variable `lake`
says where the tables are.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator, DeltaWriteOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
MARK = "customers up to version "


# [START range_of_versions]
def merged_up_to(copy: str) -> int:
    """The last version of the source whose changes are in the copy, -1 where it has none yet."""
    from deltalite import DeltaTable
    from deltalite.errors import TableNotFoundError

    try:
        history = DeltaTable(copy).history()
    except TableNotFoundError:
        return -1
    for commit in history:  # newest first
        said = json.loads(commit.get("userMetadata") or "{}").get("user_metadata") or ""
        if said.startswith(MARK):
            return int(said.removeprefix(MARK))
    if history[-1]["version"] > 0:
        raise ValueError(f"The history of {copy} no longer says how far it has come; make the copy anew.")
    return -1


@task
def next_range(source: str, copy: str) -> dict[str, int]:
    """The versions that this run merges, both inclusive. Skips the run where there is none."""
    from airflow.providers.common.compat.sdk import AirflowSkipException

    from deltalite import DeltaTable

    first, newest = merged_up_to(copy) + 1, DeltaTable(source).version
    if newest < first:
        raise AirflowSkipException(f"{source} has no version after {newest}.")
    return {"first": first, "last": newest}


# [END range_of_versions]

with DAG(
    dag_id="customers_changes",
    doc_md=__doc__,
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1), "depends_on_past": True},
    tags=["deltalite", "example"],
):
    versions = next_range(f"{LAKE}/customers", f"{LAKE}/customers_for_analysts")
    create = DeltaWriteOperator(
        task_id="create",
        table=f"{LAKE}/customers_for_analysts",
        source={"format": "delta", "path": f"{LAKE}/customers"},
        query="SELECT customer, country, changed_at FROM source LIMIT 0",
        mode="ignore",  # a table that is there is left as it is
        properties={"delta.enableDeletionVectors": "true", "delta.logRetentionDuration": "interval 365 days"},
    )
    # [START merge_changes]
    merge = DeltaMergeOperator(
        task_id="merge",
        table=f"{LAKE}/customers_for_analysts",
        source={
            "format": "delta",
            "path": f"{LAKE}/customers",
            "changes_from_version": "{{ ti.xcom_pull('next_range')['first'] }}",
            "changes_to_version": "{{ ti.xcom_pull('next_range')['last'] }}",
        },
        # Of each customer the last change counts; within a version, a row that came outlives one that went.
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
        when_not_matched=[{"insert": "*", "condition": "NOT source.deleted"}],
        user_metadata=MARK + "{{ ti.xcom_pull('next_range')['last'] }}",
        on_rerun="skip",
    )
    # [END merge_changes]
    versions >> create >> merge
