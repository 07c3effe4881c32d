"""A commit from outside Airflow starts a DAG run, maintenance starts none, and a stopped triggerer loses no commit.

One test goes through all steps, because each step needs the previous one:

1. The watcher starts.
2. Another engine commits.
3. Maintenance commits.
4. Another engine commits while no triggerer runs.
5. The table is dropped and created again.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake

from airflow_provider_deltalite.assets.delta import asset_uri
from tests.examples.dag_runs import EXAMPLES

pytestmark = [pytest.mark.airflow, pytest.mark.interop, pytest.mark.slow]

DAG_ID = "orders_on_change"
ROWS = pa.table({"id": pa.array(range(10))})


def append(table):
    write_deltalake(str(table), ROWS, mode="append")


def stored_position(airflow, table):
    """Return the position that the watcher has stored with its asset, or None before the watcher has started."""
    assets = [asset for asset in airflow.ask("GET", "assets")["assets"] if asset["uri"] == asset_uri(str(table))]
    if not assets:
        return None
    stored_values = airflow.ask("GET", f"assets/{assets[0]['id']}/state-store")["asset_state_store"]
    value = stored_values[0]["value"] if stored_values else None
    return json.loads(value) if isinstance(value, str) else value


def result_of_run(airflow, number):
    """Return the result of the run with this number, counted from 1, and assert that it is the last run."""
    runs = airflow.wait_for_runs(DAG_ID, number)
    assert len(runs) == number
    airflow.wait_for_run(DAG_ID, runs[-1]["dag_run_id"])
    return airflow.xcom(DAG_ID, runs[-1]["dag_run_id"], "count_rows")


@pytest.mark.campaign
def test_commits_of_other_programs_start_runs_that_read_their_versions(whole_airflow):
    airflow, table = whole_airflow, whole_airflow.home / "lake" / "orders"

    def has_polled(version):
        position = stored_position(airflow, table)
        return position is not None and position["place"]["version"] == version

    append(table)
    dag_source = (EXAMPLES / f"{DAG_ID}.py").read_text()
    airflow.add_dag(DAG_ID, dag_source.replace("poke_interval=30", "poke_interval=1"))
    airflow.parse_again(DAG_ID)
    airflow.until("the watcher has read version 0", lambda: has_polled(0), timeout=90)

    append(table)
    assert result_of_run(airflow, 1) == {"from_version": 1, "version": 1, "operations": ["WRITE"], "rows": 20}

    DeltaRsTable(str(table)).optimize.compact()
    airflow.until("the watcher has read the optimize", lambda: has_polled(2))
    airflow.stop("triggerer")
    append(table)
    append(table)
    airflow.start("triggerer")
    assert result_of_run(airflow, 2) == {"from_version": 2, "version": 4, "operations": ["WRITE"], "rows": 40}

    # A rename is atomic, so no poll reads a table that is half deleted.
    table.rename(table.parent / "dropped")
    append(table)
    assert result_of_run(airflow, 3) == {"from_version": 0, "version": 0, "operations": ["WRITE"], "rows": 10}
    airflow.pause(DAG_ID)
