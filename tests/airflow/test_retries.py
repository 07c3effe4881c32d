"""The retry policy, and its error on an Airflow without retry policies."""

from __future__ import annotations

import sys
from datetime import timedelta

import airflow.sdk
import pytest
from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from airflow_provider_deltalite.failures import DeltaJobError, failure
from airflow_provider_deltalite.retries import delta_retry_policy
from deltalite.errors import ConcurrentDeleteReadException, StorageError
from tests.support.airflow_versions import since_3_3


def decision_of(policy, error):
    """The action of a retry policy after this error, and its delay."""
    decision = policy.evaluate(error, try_number=1, max_tries=3)
    return decision.action.value, decision.retry_delay


@since_3_3
def test_the_policy_sets_the_delay_by_error_and_ignores_other_errors():
    policy = delta_retry_policy(conflict_delay=timedelta(seconds=1), storage_delay=timedelta(seconds=2))
    assert decision_of(policy, failure(ConcurrentDeleteReadException, "m")) == ("retry", timedelta(seconds=1))
    assert decision_of(policy, failure(StorageError, "m")) == ("retry", timedelta(seconds=2))
    for other_error in (DeltaJobError("m"), ValueError("m")):
        assert decision_of(policy, other_error) == ("default", None)
    policy_with_job_delay = delta_retry_policy(job_delay=timedelta(seconds=3))
    assert decision_of(policy_with_job_delay, DeltaJobError("m")) == ("retry", timedelta(seconds=3))


@since_3_3
def test_the_policy_survives_serialization():
    policy = delta_retry_policy()
    deserialized = airflow.sdk.ExceptionRetryPolicy.deserialize(policy.serialize())
    assert decision_of(deserialized, failure(StorageError, "m")) == decision_of(policy, failure(StorageError, "m"))


def test_an_older_airflow_gets_an_error_with_a_remedy(monkeypatch):
    module_without_policies = type(sys)("airflow.sdk")
    monkeypatch.setitem(sys.modules, "airflow.sdk", module_without_policies)
    with pytest.raises(AirflowOptionalProviderFeatureException, match=r"needs Airflow 3.3.*Leave `retry_policy` out"):
        delta_retry_policy()
