"""Runs example DAGs with `dag.test()`, a real database, real tasks and a real Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from deltalite import DeltaTable

EXAMPLES = Path(__file__).resolve().parents[2] / "example_dags"
FIRST_DAY, SECOND_DAY = date(2026, 3, 1), date(2026, 3, 2)


@dataclass(frozen=True, kw_only=True)
class Run:
    """The state of a DAG run, and the return values and try numbers of its tasks."""

    run_id: str
    state: str
    return_values: dict[str, Any]
    try_numbers: dict[str, int]


def example(dag_id: str):
    """Return an example DAG, loaded from its file."""
    from tests.support.airflow_versions import DagBag

    bag = DagBag(EXAMPLES / f"{dag_id}.py")
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def run(dag, day: date, *, after_midnight: timedelta = timedelta(days=1), conf: dict[str, Any] | None = None) -> Run:
    """Run a DAG for a day, and return the ended run.

    The run's id contains the time of the run, `after_midnight` after the beginning of the day. The return value of a
    mapped task is a list, in the order of the map indexes.
    """
    midnight = datetime.combine(day, time(tzinfo=UTC))
    dag_run = dag.test(logical_date=midnight, run_after=midnight + after_midnight, run_conf=conf)
    tasks = dag_run.get_task_instances()
    return Run(
        run_id=dag_run.run_id,
        state=str(dag_run.state),
        return_values={ti.task_id: ti.xcom_pull(task_ids=ti.task_id) for ti in tasks},
        try_numbers={ti.task_id: ti.try_number for ti in tasks},
    )


def rows(table: Path) -> list[dict[str, Any]]:
    """Return all rows of a table, in a fixed order."""
    return sorted(DeltaTable(str(table)).to_arrow().to_pylist(), key=repr)
