"""The task group `delta_maintenance`: optimize, checkpoint and vacuum for one table.

The group is made with Airflow's `@task_group`, so you can call it, override it, and map it over several tables. Each
step is an operator with the operator's defaults. The order of the steps matters:

1. Optimize replaces small files and adds commits to the log.
2. The checkpoint makes the log short to read.
3. Vacuum deletes files that were replaced longer ago than the table's retention.
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
"""False leaves the step out, True runs it with its defaults, and a mapping gives arguments of its operator."""


@task_group(
    group_id="maintenance",
    tooltip="Packs small files, writes a checkpoint of the newest version, and deletes files that no version inside "
    "the table's retention needs.",
)
def delta_maintenance(
    table: str,
    *,
    optimize: Step = True,
    checkpoint: Step = True,
    vacuum: Step = True,
    operator_args: Mapping[str, Any] | None = None,
) -> None:
    """Make a task group that optimizes a Delta table, writes its checkpoint, and vacuums it.

    - A call returns the group: ``load >> delta_maintenance("/lake/orders")``.
    - ``override`` sets parameters of ``TaskGroup``:
      ``delta_maintenance.override(group_id="orders_upkeep")("/lake/orders")``.
    - ``expand`` maps the group over tables that are known only when the DAG runs:
      ``delta_maintenance.partial(vacuum={"mode": "lite"}).expand(table=list_of_tables())``.

    The steps run one after another. If one fails, the later ones do not run. The vacuum uses the table's retention by
    default, so readers lose no file that they need.

    In a mapped group, all tables have the same steps with the same arguments. Airflow renders templates in these
    arguments for each table, but renders no templates in the values that the group is mapped over.

    :param table: The table's address, as each operator takes it: a text, a template, or the return value of a task.
    :param optimize: Arguments of ``DeltaOptimizeOperator`` other than the table (``{"z_order_by": ["customer"]}``).
        True runs the step with its defaults, False leaves it out.
    :param checkpoint: The same for ``DeltaCheckpointOperator``.
    :param vacuum: The same for ``DeltaVacuumOperator``.
    :param operator_args: Arguments of every step, such as ``conn_id``, ``storage_conn_id``, ``conf``, ``pool`` or
        ``retries``. Arguments of a step take precedence.
    """
    steps: dict[str, tuple[type[DeltaSubmitOperator], Step]] = {
        "optimize": (DeltaOptimizeOperator, optimize),
        "checkpoint": (DeltaCheckpointOperator, checkpoint),
        "vacuum": (DeltaVacuumOperator, vacuum),
    }
    common_arguments = _step_arguments("operator_args", operator_args or {})
    tasks = [
        _make_task(operator, name, table, {**common_arguments, **_step_arguments(name, step)})
        for name, (operator, step) in steps.items()
        if step is not False
    ]
    if not tasks:
        raise InvalidRequestError(
            "delta_maintenance has no step: optimize, checkpoint and vacuum are all False.",
            remedy="Set at least one of them to True, or leave the group out.",
        )
    chain(*tasks)


def _step_arguments(name: str, step: Step) -> Mapping[str, Any]:
    if step is True:
        return {}
    if not isinstance(step, Mapping):
        raise InvalidRequestError(
            f"'{name}' of delta_maintenance is {step!r}, neither a boolean nor a dictionary.",
            remedy="Give True, False, or the operator's arguments as a dictionary. For a mapped group, give it in "
            "`partial`: the tasks must be known when the DAG is parsed.",
        )
    if "table" in step:
        raise InvalidRequestError(
            f"'{name}' of delta_maintenance names another table, {step['table']!r}.",
            remedy="Leave `table` out of the arguments: all steps maintain the group's table.",
        )
    return step


def _make_task(
    operator: type[DeltaSubmitOperator], name: str, table: str, arguments: Mapping[str, Any]
) -> DeltaSubmitOperator:
    return operator(**{"task_id": name, **arguments, "table": table})
