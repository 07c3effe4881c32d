"""A retry policy for Delta tasks, for Airflow 3.3 and later: `retry_policy=delta_retry_policy()`.

The policy only sets how long Airflow waits before a retry: a short time after a conflict, a longer time after a storage
failure, and `job_delay` after a job that was killed. It never adds retries, and does not apply to other errors.

Tasks without the policy are safe too. A task fails at once on an error that a retry cannot fix. On other errors it is
retried as `retries` and `retry_delay` say.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError, DeltaStorageError

if TYPE_CHECKING:
    from airflow.sdk import ExceptionRetryPolicy

_CONFLICT_DELAY = timedelta(seconds=15)
_STORAGE_DELAY = timedelta(minutes=2)


def delta_retry_policy(
    *,
    conflict_delay: timedelta = _CONFLICT_DELAY,
    storage_delay: timedelta = _STORAGE_DELAY,
    job_delay: timedelta | None = None,
) -> ExceptionRetryPolicy:
    """Return a retry policy for operators and sensors of this provider. The task's ``retries`` limits it.

    :param conflict_delay: The delay after a conflict with another writer's commit.
    :param storage_delay: The delay after a storage failure.
    :param job_delay: The delay after a job that was killed, or that failed without a ``deltalite`` error. The default
        is the task's ``retry_delay``.

    Raises:
        AirflowOptionalProviderFeatureException: Airflow is older than 3.3.
    """
    try:
        from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    except ImportError as error:
        raise AirflowOptionalProviderFeatureException(
            "delta_retry_policy() needs Airflow 3.3 or later. Leave `retry_policy` out: without it, the task still "
            "fails at once on errors that a retry cannot fix."
        ) from error
    delays = {DeltaConflictError: conflict_delay, DeltaStorageError: storage_delay, DeltaJobError: job_delay}
    rules = [
        RetryRule(exception=error_class, action=RetryAction.RETRY, retry_delay=delay)
        for error_class, delay in delays.items()
        if delay is not None
    ]
    return ExceptionRetryPolicy(rules)
