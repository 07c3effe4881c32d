"""Writes and merges whose tasks take seconds, so that a test can act in the middle of their output.

Each row sleeps in the task that writes it. A job has more tasks than executors, and each executor runs one task at a
time. In the middle of the output, a task has committed its files, and each executor runs another task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from airflow_provider_deltalite.operators.delta import DeltaMergeOperator, DeltaWriteOperator
from tests.clusters.conftest import Mode, wait_until
from tests.support.background_tasks import BackgroundTask
from tests.support.tables import schema_json, write_data_file, write_foreign_table

_SLEEP = "left(java_method('java.lang.Thread', 'sleep', CAST({} AS BIGINT)), 0)"  # an empty text
SLOW_LAST_TASK = "IF(spark_partition_id() = 3, {}, 0)"
"""The sleep of each row, if only the last of the four tasks of a write is slow."""
SLOW_FIRST_TASK = "IF(spark_partition_id() = 0, {}, 0)"
"""The sleep of each row, if only the first task is slow. Spark starts it on the executor that has read the source."""
_RUNNING_TASK_PATTERN = re.compile(r"_temporary/0/_temporary/attempt_\w+/")
_COMMITTED_TASK_PATTERN = re.compile(r"_temporary/0/(task_\w+)/")
_TASKS = 4
_EXECUTORS = 2


def source_of(mode: Mode, name: str, ids: Sequence[int]) -> dict[str, Any]:
    """A source of rows `(id, name)`, in a file that every process of the cluster can read."""
    rows_file = mode.folder / f"{name}.csv"
    rows_file.write_text("\n".join(["id,kind", *(f"{number},{name}" for number in ids)]) + "\n")
    options = {"header": "true"}
    return {"format": "csv", "path": f"file://{rows_file}", "options": options, "schema": "id INT, kind STRING"}


def create_table(mode: Mode, ids: Sequence[int]) -> None:
    """Create the table `orders` with rows `(id, "old")` in four files, without a job."""
    table = mode.folder / "orders"
    parts = [list(ids[number::_TASKS]) for number in range(_TASKS)]
    adds = [
        write_data_file(table, f"old-{number}.parquet", id=pa.array(part, pa.int32()), kind=["old"] * len(part))
        for number, part in enumerate(parts)
    ]
    write_foreign_table(table, schema_json(("id", "integer"), ("kind", "string")), adds)
    mode.put_table(table)


def write_of(mode: Mode, ids: Sequence[int], *, sleep_ms: int | str = 0, **parameters: Any) -> DeltaWriteOperator:
    """A write of rows `(id, "old")` to the table `orders`, by four tasks.

    Each row sleeps for `sleep_ms`, which may be an SQL expression.
    """
    return DeltaWriteOperator(
        **mode.parameters("load", "orders", **parameters),
        source=source_of(mode, "old", ids),
        query=f"SELECT id, concat(kind, {_SLEEP.format(sleep_ms)}) AS kind "
        f"FROM (SELECT /*+ REPARTITION({_TASKS}) */ * FROM source)",
    )


def merge_of(mode: Mode, ids: Sequence[int], *, sleep_ms: int | str = 0, **parameters: Any) -> DeltaMergeOperator:
    """A merge of rows `(id, "new")` into the table `orders`, by a task for each data file, and two for inserts."""
    conf = {"spark.sql.files.minPartitionNum": str(_TASKS)} | parameters.pop("conf", {})
    kind = f"concat(source.kind, {_SLEEP.format(sleep_ms)})"
    return DeltaMergeOperator(
        **mode.parameters("upsert", "orders", conf=conf, **parameters),
        source=source_of(mode, "new", ids),
        query="SELECT /*+ REPARTITION(2) */ * FROM source",  # so that each executor computes a part of the source
        on="target.id = source.id",
        when_matched=[{"update": {"kind": kind}}],
        when_not_matched=[{"insert": {"id": "source.id", "kind": kind}}],
    )


def is_in_the_middle(mode: Mode) -> bool:
    """Whether one or two tasks of the job have committed their files, and another one has opened a file.

    At least two tasks remain, so both executors run a task.
    """
    names = mode.files("orders")
    committed_tasks = {match[1] for match in map(_COMMITTED_TASK_PATTERN.search, names) if match}
    is_running = any(_RUNNING_TASK_PATTERN.search(name) for name in names)
    return is_running and 1 <= len(committed_tasks) <= _TASKS - _EXECUTORS


@contextmanager
def running(mode: Mode, operator: Any, results: list[dict[str, Any]]) -> Iterator[str]:
    """Run a task, and yield the id of its application in the middle of its output. The task ends with the block.

    `results` gets the result of the task.
    """
    task = BackgroundTask(lambda: results.append(mode.run(operator)))
    with task:
        application: Callable[[], str | None] = mode.event_logs.running_application
        application_id: str = wait_until("the job runs", application)
        wait_until("the job writes its second files", lambda: is_in_the_middle(mode))
        yield application_id
        task.wait(500)
    assert task.errors == []
