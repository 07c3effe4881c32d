"""A DAG that starts when a table changes, whoever has changed it.

The triggerer watches the log of `orders`. A commit from anywhere, Airflow or not, starts a run within a minute or so;
an OPTIMIZE or a VACUUM starts none, since it changes no row. The run gets a range of versions, and reads the table as
it was at the last of them: what is written meanwhile starts the next run. Events may repeat and may be merged into one
run, so the task names its work by the versions and may do it again.

An asset has to be known when this file is parsed, so the address cannot be a template: here it comes from the
environment. Airflow watches as long as the DAG is not paused, and keeps how far it has come.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task

from airflow_provider_deltalite.assets.delta import delta_asset, delta_events

# [START asset]
ORDERS = delta_asset(f"{os.environ.get('AIRFLOW_VAR_LAKE', '/data/lake')}/orders", watch=True, poke_interval=30)
# [END asset]


# [START count_changes]
@task
def count_changes() -> dict[str, Any]:
    """Count the rows at the newest of the new versions. Reads on the worker, without Spark."""
    from deltalite import DeltaTable

    events = delta_events(get_current_context(), ORDERS)
    if events.version is None:  # somebody has started this run by hand
        return {"versions": 0}
    table = DeltaTable(events[-1].table, version=events.version)
    return {
        "from_version": events.from_version,
        "version": events.version,
        "operations": list(events.operations),
        "rows": table.to_arrow().num_rows,
    }


# [END count_changes]


with DAG(
    dag_id="orders_on_change",
    doc_md=__doc__,
    schedule=[ORDERS],
    start_date=datetime(2026, 3, 1, tzinfo=UTC),
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["deltalite", "example"],
):
    count_changes()
