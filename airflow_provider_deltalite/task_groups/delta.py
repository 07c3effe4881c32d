"""The upkeep of a table as one group of tasks: `delta_maintenance`.

It is Airflow's own kind of task group (`@task_group`), so that it is called, overridden and mapped over several tables
as any other. The steps are the operators with their own defaults, in the order in which each profits from the one
before: optimize makes files superfluous and the log longer, the checkpoint makes the log short, and vacuum deletes what
has been superfluous for longer than the retention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import chain, task_group

from airflow_provider_deltalite.operators.delta import (
    DeltaCheckpointOperator,
    DeltaOptimizeOperator,
    DeltaVacuumOperator,
)
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator

Step = bool | Mapping[str, Any]
"""Whether a step is taken, or the arguments of its operator."""


@task_group(
    group_id="maintenance",
    tooltip="Packs small files, writes the checkpoint of the newest version, and deletes the files that no version "
    "inside the table's retention needs.",
)
def delta_maintenance(
    table: str,
    *,
    optimize: Step = True,
    checkpoint: Step = True,
    vacuum: Step = True,
    operator_args: Mapping[str, Any] | None = None,
) -> None:
    """Make a group of tasks that optimizes a Delta table, writes its checkpoint, and deletes its dead files.

    Called, it gives the group: ``load >> delta_maintenance("/lake/orders")``. What a ``TaskGroup`` takes is given by
    ``override``: ``delta_maintenance.override(group_id="orders_upkeep")("/lake/orders")``. Several tables, known only
    when the DAG runs, are mapped, each going its own way through the steps:
    ``delta_maintenance.partial(vacuum={"mode": "lite"}).expand(table=list_of_tables())``.

    The steps follow each other, and one that fails keeps those behind it from running. With the defaults nothing is
    lost that a reader may need: the vacuum goes by the table's own retention. In a mapped group the steps and their
    arguments are the same for all tables, and templates in them are rendered for each; Airflow renders none in the
    values that a group is mapped over.

    :param table: The table's address, as each operator takes it: a text, a template, or what another task returned.
    :param optimize: Arguments of ``DeltaOptimizeOperator`` beside the table (``{"z_order_by": ["customer"]}``); True
        for its defaults, False to leave the step out.
    :param checkpoint: The same for ``DeltaCheckpointOperator``.
    :param vacuum: The same for ``DeltaVacuumOperator``.
    :param operator_args: Arguments of every step, such as ``conn_id``, ``storage_conn_id``, ``conf``, ``pool`` or
        ``retries``; those of a step itself go before.
    """
    steps: dict[str, tuple[type[DeltaSubmitOperator], Step]] = {
        "optimize": (DeltaOptimizeOperator, optimize),
        "checkpoint": (DeltaCheckpointOperator, checkpoint),
        "vacuum": (DeltaVacuumOperator, vacuum),
    }
    common = _arguments("operator_args", operator_args or {})
    tasks = [
        _task(operator, name, table, {**common, **_arguments(name, step)})
        for name, (operator, step) in steps.items()
        if step is not False
    ]
    if not tasks:
        raise InvalidRequestError(
            "delta_maintenance is asked to leave out every step.", remedy="Leave one of them in, or the group out."
        )
    chain(*tasks)


def _arguments(name: str, step: Step) -> Mapping[str, Any]:
    if step is True:
        return {}
    if not isinstance(step, Mapping):
        raise InvalidRequestError(
            f"'{name}' of delta_maintenance is {step!r}, a {type(step).__name__}.",
            remedy="Give True, False, or the arguments of its operator as a dictionary, in `partial` for a mapped "
            "group: which tasks there are must be known when the DAG is parsed.",
        )
    if "table" in step:
        raise InvalidRequestError(
            f"'{name}' of delta_maintenance names a table of its own, {step['table']!r}.",
            remedy="Leave it out: all steps look after one table.",
        )
    return step


def _task(
    operator: type[DeltaSubmitOperator], name: str, table: str, arguments: Mapping[str, Any]
) -> DeltaSubmitOperator:
    return operator(**{"task_id": name, **arguments, "table": table})
