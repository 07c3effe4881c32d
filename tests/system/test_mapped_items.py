"""If items get other map indexes before a clear, a mapped task fails without a key, and finds its commits with one.

A real scheduler runs the DAG, without Spark.
"""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from tests.faults.programs import write_ids
from tests.system.stand_in import write_committing_stand_in

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.campaign]

DAG = """
import json
from pathlib import Path
from airflow.sdk import DAG, task
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

@task
def files():
    return json.loads(Path({items_file!r}).read_text())

@task
def sources(names):
    return [dict(source=dict(format="csv", path=f"/in/{{name}}"), user_metadata=str(name)) for name in names]

with DAG("mapped_items", schedule=None, default_args={{"retries": 0}}):
    items = sources(files())
    common = dict(spark_binary={program!r})
    DeltaWriteOperator.partial(task_id="by_position", table={by_position!r}, **common).expand_kwargs(items)
    DeltaWriteOperator.partial(
        task_id="by_key", table={by_key!r}, idempotency_key="{{{{ task.source['path'] }}}}", **common
    ).expand_kwargs(items)
"""


def ids(table):
    """Return the ids of all rows, sorted."""
    return sorted(row["id"] for row in DeltaTable(table).to_arrow().to_pylist())


def test_a_cleared_task_fails_if_items_have_other_indexes_and_finds_them_by_key(whole_airflow, tmp_path):
    tables = {name: str(tmp_path / name) for name in ("by_position", "by_key")}
    items_file, program = tmp_path / "items.json", tmp_path / "commits"
    items_file.write_text(json.dumps([1, 2]))
    for table in tables.values():
        write_ids(None, table, run="another", ids=[0])
    write_committing_stand_in(program)
    whole_airflow.add_dag("mapped_items", DAG.format(items_file=str(items_file), program=str(program), **tables))
    run_id = whole_airflow.run("mapped_items", timeout=300)
    assert [ids(table) for table in tables.values()] == [[0, 1, 2]] * 2
    items_file.write_text(json.dumps([9, 1, 2]))
    whole_airflow.clear("mapped_items", run_id)
    whole_airflow.wait_for_run("mapped_items", run_id, state="failed", timeout=300)
    assert ids(tables["by_position"]) == [0, 1, 2], "an item was lost or written twice"
    assert ids(tables["by_key"]) == [0, 1, 2, 9]

    def state_of_task(task_id, index):
        return whole_airflow.task("mapped_items", run_id, task_id, index)["state"]

    assert [state_of_task("by_position", index) for index in range(3)] == ["failed"] * 3
    assert [state_of_task("by_key", index) for index in range(3)] == ["success"] * 3
    results = [whole_airflow.xcom("mapped_items", run_id, "by_key", map_index=index) for index in range(3)]
    assert [result["skipped"] for result in results] == [False, True, True]
    assert "RerunDiffersError" in whole_airflow.task_log("mapped_items", run_id, "by_position", map_index=0)
