"""Follow the changes of one table into another: a copy of the customers for analysts, without email addresses.

Each DAG run reads the change data feed of `customers` and merges it into `customers_for_analysts`. It starts after the
last merged version and ends at the newest version. No change is lost, and none is merged twice:

- Each merge stores the last merged version in its own commit (`user_metadata`). The stored version and the rows change
  in one commit, so they cannot diverge.
- The task `next_range` decides the range of versions. Every task attempt of the merge reads the same range. A retry
  finds the commit of an earlier attempt.
- Runs execute one after another. A failed run blocks the later ones (`depends_on_past`). Clear the complete run.

A day without changes starts no Spark job. The DAG reads the stored version from the copy's history, so the copy keeps
its log for a year. If the history no longer contains a stored version, the task fails and does not start from the
beginning. The Airflow Variable `lake` names the folder of the tables.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator, DeltaWriteOperator

LAKE = "{{ var.value.get('lake', '/data/lake') }}"
MERGED_UP_TO = "customers up to version "


# [START range_of_versions]
def last_merged_version(copy: str) -> int:
    """Return the last version of the source that the copy contains, or -1 if it contains none yet."""
    from deltalite import DeltaTable
    from deltalite.errors import TableNotFoundError

    try:
        history = DeltaTable(copy).history()
    except TableNotFoundError:
        return -1
    for commit in history:  # newest first
        user_metadata = json.loads(commit.get("userMetadata") or "{}").get("user_metadata") or ""
        if user_metadata.startswith(MERGED_UP_TO):
            return int(user_metadata.removeprefix(MERGED_UP_TO))
    if history[-1]["version"] > 0:
        raise ValueError(f"The history of {copy} no longer contains the last merged version. Make the copy again.")
    return -1


@task
def next_range(source: str, copy: str) -> dict[str, int]:
    """Return the first and the last version that this run merges. Skip the run if there is no new version."""
    from airflow.providers.common.compat.sdk import AirflowSkipException

    from deltalite import DeltaTable

    first_version, newest_version = last_merged_version(copy) + 1, DeltaTable(source).version
    if newest_version < first_version:
        raise AirflowSkipException(f"{source} has no version after {first_version - 1}, which is merged already.")
    return {"first": first_version, "last": newest_version}


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
        mode="ignore",  # an existing table stays as it is
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
        when_not_matched=[{"insert": "*", "condition": "NOT source.deleted"}],
        user_metadata=MERGED_UP_TO + "{{ ti.xcom_pull('next_range')['last'] }}",
        on_rerun="skip",
    )
    # [END merge_changes]
    versions >> create >> merge
