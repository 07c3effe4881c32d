"""The deferral of a task while its driver runs in a cluster. DAG parsing does not import this module.

1. The worker submits the job and stores the id of the driver for a retry, as without a deferral.
2. `defer` gives the worker's slot back. A trigger waits until the driver has ended.
3. A worker resumes the task with a `Deferral`. The task follows the driver as an attempt that joins the driver. So the
   driver's log, the result, typed errors, links and clean-up are the same as without a deferral.

If the trigger cannot watch the driver, the worker of step 3 waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.common.compat.sdk import AirflowTaskTimeout, conf

from airflow_provider_deltalite.clusters.driver_state import WatchEnd
from airflow_provider_deltalite.clusters.watching import watched_driver
from airflow_provider_deltalite.operators._submission import submitter_of
from deltalite.errors import InvalidRequestError
from deltalite.requests import Approval

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.hooks.spark_submit import DeltaSparkSubmitHook
    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator

# Airflow fails the task this long after its deadline, if no triggerer has noticed the deadline.
_TIMEOUT_MARGIN = timedelta(minutes=5)
_TIMEOUT_REASON = "Trigger timeout"  # airflow.sdk.bases.operator.TriggerFailureReason.TRIGGER_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """The values that Airflow keeps while a task is deferred, and the event that ended the deferral.

    :param driver_id: The YARN application, a pod as ``namespace:name``, or the id that a ``JobSubmitter`` returned.
    :param nonce: The nonce of the markers that the driver prints; None if an older release submitted the driver.
    :param state_before_job: What the table's log showed before the job; None if the worker could not read the log.
    :param event: The payload of the trigger's event.
    :param approval: The approval with which the job runs, as JSON values; None if nobody was asked.
    :param deadline_ms: The time at which the task attempt times out, in milliseconds UTC; None if it never does, or if
        an older release deferred the task.
    """

    driver_id: str
    nonce: str | None
    state_before_job: Mapping[str, Any] | None
    event: Mapping[str, Any] | None = None
    approval: Mapping[str, Any] | None = None
    deadline_ms: int | None = None

    @property
    def accepted_values(self) -> Approval | None:
        """The approval with which the job runs."""
        return None if self.approval is None else Approval.from_dict(self.approval)

    @property
    def has_foreign_event(self) -> bool:
        """Whether something other than the trigger sent the event, such as a person who answers (Airflow 3.3)."""
        return self.event is not None and self.event.get("status") not in tuple(WatchEnd)

    @property
    def has_timed_out(self) -> bool:
        """Whether the task has reached its deadline."""
        return (self.event or {}).get("status") == WatchEnd.TIMEOUT

    @property
    def warning(self) -> str | None:
        """The reason for which the driver may still run; None if it has ended."""
        event = self.event or {}
        if self.has_foreign_event:
            return (
                f"Waiting again for the driver {self.driver_id}: Airflow resumed the task without an event of the "
                "driver's trigger, for example because a person answered an old question."
            )
        if event.get("status") != WatchEnd.UNWATCHED:
            return None
        return (
            f"The triggerer could not watch the driver {self.driver_id}, so this worker waits for it: "
            f"{event.get('message')} Give the triggerer the access to the cluster that the workers have."
        )

    def kill_if_timed_out(self, operator: DeltaSubmitOperator, kill: Callable[[], None]) -> None:
        """Kill the job of a task that has reached its deadline. Log a warning if the driver may still run.

        :param operator: The operator of the task.
        :param kill: The function that kills the job.
        :raises AirflowTaskTimeout: The task has reached its deadline.
        """
        if self.has_timed_out:
            kill()
            raise AirflowTaskTimeout(
                f"The job ran longer than the task's execution_timeout ({operator.execution_timeout}), so the worker "
                f"killed the driver {self.driver_id}."
            )
        if self.warning is not None:
            operator.log.warning("%s", self.warning)


def wants_to_defer(operator: DeltaSubmitOperator, obstacle: InvalidRequestError | None) -> bool:
    """Whether the task defers while its job runs.

    :param obstacle: The error that says why a triggerer cannot watch the job; None if it can.
    :raises InvalidRequestError: The obstacle, if the author set ``deferrable=True``. The setting ``[operators]
        default_deferrable`` raises no error: the task then waits on the worker.
    """
    is_deferrable = operator.deferrable
    if is_deferrable is None:
        is_deferrable = conf.getboolean("operators", "default_deferrable", fallback=False)
    if not is_deferrable or obstacle is None:
        return bool(is_deferrable)
    if operator.deferrable is None:
        operator.log.info("This task waits on the worker: %s", obstacle.problem)
        return False
    raise obstacle


def find_obstacle(hook: DeltaSparkSubmitHook) -> InvalidRequestError | None:
    """Return the error that says why a triggerer cannot watch the driver; None if it can."""
    launch = hook.launch
    if not launch.in_cluster:
        return InvalidRequestError(
            "deferrable=True needs a driver in a cluster, but with the master "
            f"'{launch.master}' and deploy mode '{launch.deploy_mode or 'client'}' the driver runs on the worker.",
            remedy="Use YARN or Kubernetes with deploy_mode='cluster', in the task or in the extra 'deploy-mode' of "
            "the connection; or leave deferrable out.",
        )
    if not hook.is_tracked:
        remedy = "Leave track_driver_via_k8s_api out, or leave deferrable out."
        if not launch.runs_in_pod:
            remedy = (
                "Set the extra 'yarn_resourcemanager_webapp_address' of the connection (such as http://rm:8088), and "
                "leave yarn_track_via_rm_api out; or leave deferrable out."
            )
        return InvalidRequestError("deferrable=True needs a tracked job, and this job is not tracked.", remedy=remedy)
    if hook.has_auth_of_author:
        return InvalidRequestError(
            "deferrable=True does not work with yarn_rm_auth, because the triggerer does not get this object.",
            remedy="Put keytab and principal into the connection for Kerberos, or leave deferrable out.",
        )
    return None


def defer(
    operator: DeltaSubmitOperator,
    context: Context,
    deferral: Deferral,
    *,
    trigger_arguments: Mapping[str, Any],
    poll_interval: float,
) -> NoReturn:
    """Defer the task until the driver has ended.

    :param trigger_arguments: The arguments that say how the trigger reaches the driver.
    :param poll_interval: Seconds between two polls.
    :raises TaskDeferred: Always. Airflow stores the arguments of the trigger and the deferral in its database.
    """
    from airflow_provider_deltalite.triggers.driver import SparkDriverTrigger

    deadline_ms = _deadline_ms(operator, context)
    trigger = SparkDriverTrigger(
        driver_id=deferral.driver_id, poll_interval=poll_interval, deadline_ms=deadline_ms, **trigger_arguments
    )
    timeout = None
    if deadline_ms is not None:
        timeout = max(timedelta(0), timedelta(milliseconds=deadline_ms - _now_ms())) + _TIMEOUT_MARGIN
    kwargs: dict[str, Any] = {
        "driver_id": deferral.driver_id,
        "nonce": deferral.nonce,
        "state_before_job": deferral.state_before_job,
        "deadline_ms": deadline_ms,
    }
    if operator.approval is not None:
        kwargs["approval"] = operator.approval.as_dict()
    operator.defer(trigger=trigger, method_name="execute_complete", kwargs=kwargs, timeout=timeout)


def ended_at_timeout(next_kwargs: Mapping[str, Any] | None) -> bool:
    """Whether Airflow has ended a deferral at its timeout, because no triggerer noticed the deadline of the task."""
    return (next_kwargs or {}).get("error") == _TIMEOUT_REASON


def kill_stored_driver(operator: DeltaSubmitOperator, context: Context, *, conn_id: str) -> None:
    """Kill the driver whose id the task state store has. Airflow drops the arguments of a deferral that times out."""
    state = context.get("task_state_store")
    driver_id = None if state is None else state.get(operator.external_id_key)
    if driver_id is None:
        operator.log.error(
            "The task timed out, and this worker does not know the id of the driver. The driver may still run and "
            "commit."
        )
        return
    operator.log.info("The task timed out while no triggerer watched it. Killing the driver %s.", driver_id)
    uses_kerberos = bool(operator.keytab and operator.principal)
    submitter = submitter_of(operator)
    serialized_submitter = None if submitter is None else submitter.serialize()
    watched_driver(conn_id, str(driver_id), uses_kerberos=uses_kerberos, submitter=serialized_submitter).kill()


def _deadline_ms(operator: DeltaSubmitOperator, context: Context) -> int | None:
    """Return the time at which the task attempt times out, in milliseconds UTC; None if it never does.

    A deferral does not change the time at which the attempt began. The time in which a person decides does not count,
    so after an approval, the attempt begins when the job is submitted. If the task defers again, the deadline stays.
    """
    execution_timeout = operator.execution_timeout
    if execution_timeout is None:
        return None
    if operator.deferral is not None and operator.deferral.deadline_ms is not None:
        return operator.deferral.deadline_ms
    start = None if operator.approval is not None else getattr(context["ti"], "start_date", None)
    start_ms = int(start.timestamp() * 1000) if isinstance(start, datetime) else _now_ms()
    return start_ms + int(execution_timeout.total_seconds() * 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
