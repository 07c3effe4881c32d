"""A retry policy for Delta tasks, for Airflow 3.3 and later: `retry_policy=delta_retry_policy()`.

Without a policy a task does the right thing already: it fails at once where no other try can help, and is retried as
`retries` and `retry_delay` say where one can. The policy only says how long to wait, since a conflict is over in a
moment, and a storage that does not answer is not. It never adds tries, and decides nothing about other errors.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError, DeltaStorageError

if TYPE_CHECKING:
    from airflow.sdk import ExceptionRetryPolicy

_SOON = timedelta(seconds=15)
_LATER = timedelta(minutes=2)


def delta_retry_policy(
    *, conflict_delay: timedelta = _SOON, storage_delay: timedelta = _LATER, job_delay: timedelta | None = None
) -> ExceptionRetryPolicy:
    """A policy for operators and sensors of this provider, within the task's ``retries``.

    :param conflict_delay: The wait after another writer's commit stood in the way.
    :param storage_delay: The wait after storage did not answer.
    :param job_delay: The wait after a job that was killed, or ended without saying why; the task's ``retry_delay``
        where it is left out.
    """
    try:
        from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    except ImportError as error:
        raise AirflowOptionalProviderFeatureException(
            "delta_retry_policy() needs Airflow 3.3 or later. Leave `retry_policy` out: errors that no other try can "
            "cure fail the task at once without it, too."
        ) from error
    waits = {DeltaConflictError: conflict_delay, DeltaStorageError: storage_delay, DeltaJobError: job_delay}
    rules = [
        RetryRule(exception=kind, action=RetryAction.RETRY, retry_delay=delay)
        for kind, delay in waits.items()
        if delay is not None
    ]
    return ExceptionRetryPolicy(rules)
