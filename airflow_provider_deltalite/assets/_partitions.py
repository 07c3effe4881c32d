"""Partition keys on the outlet event of a task, for DAGs that are scheduled on a partition (Airflow 3.2 and later)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from deltalite.results import OperationResult

_log = logging.getLogger(__name__)


def wants_partition_events(context: Context, *, partition_events: bool | None) -> bool:
    """Whether the task's events name partitions; if `partition_events` is None, the DAG's timetable decides.

    An event with a partition key does not start a DAG that has a plain asset schedule, so events have keys only on
    request. The timetable `PartitionedAtRuntime` is such a request.
    """
    if partition_events is not None:
        return partition_events
    timetable = getattr(context.get("dag"), "timetable", None)
    return getattr(timetable, "partitioned_at_runtime", False) is True


def add_partitions_to_event(event: Any, result: OperationResult) -> None:
    """Add the touched partitions to the outlet event of an asset. Log a message if the result names none.

    Before Airflow 3.2, events have no partitions, and the function does nothing.
    """
    if not hasattr(event, "add_partitions"):
        return
    if result.partitions:
        event.add_partitions(list(result.partitions))
    elif result.partitions is None:
        _log.warning(
            "The event for %s names no partition, so it starts no DAG that is scheduled on partitions: the task "
            "touched too many partitions to name, or their names are unknown or too long. Start such a DAG manually.",
            result.table,
        )
    else:
        _log.info("The event for %s names no partition: the task changed no row of a partition.", result.table)
