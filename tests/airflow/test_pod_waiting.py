"""A task waits for the end of its driver's pod, with a stand-in for Kubernetes' API."""

from __future__ import annotations

import pytest
from urllib3.exceptions import MaxRetryError

from airflow_provider_deltalite.clusters import pod_waiting
from airflow_provider_deltalite.failures import DeltaJobError
from tests.airflow.test_pods import commit_and_succeed, operator


def test_a_task_does_not_wait_for_a_pod_on_a_node_that_does_not_report_its_end(table, context, kubernetes):
    kubernetes.is_being_deleted = True
    kubernetes.deleted_seconds_ago = -30  # the grace period has not passed
    load = operator(table)

    def running_and_deleted_ago(seconds):
        def phase():
            kubernetes.deleted_seconds_ago = seconds
            return "Running"

        return phase

    kubernetes.phases = ["Running", "Running", running_and_deleted_ago(30), running_and_deleted_ago(90), "Running"]
    with pytest.raises(DeltaJobError, match="its node node2 has not reported the end of the pod"):
        load.execute(context)
    assert kubernetes.phases == ["Running"]


def test_the_clock_of_the_worker_does_not_decide_that_a_node_is_lost(table, context, kubernetes):
    kubernetes.is_being_deleted, kubernetes.slow_by_seconds = True, 600
    kubernetes.phases = ["Running", "Running", commit_and_succeed(table)]
    assert operator(table).execute(context)["committed"] is True


def test_a_task_gives_up_if_kubernetes_does_not_answer_for_fifteen_minutes(table, context, kubernetes, monkeypatch):
    polls = []

    def no_answer():
        polls.append(len(polls))
        monkeypatch.setattr(pod_waiting, "_now_ms", lambda: len(polls) * 100_000)
        raise MaxRetryError(None, "/pods")

    monkeypatch.setattr(pod_waiting, "_now_ms", lambda: 0)
    kubernetes.phases = ["Running", no_answer]
    with pytest.raises(DeltaJobError, match="The driver may still run and commit"):
        operator(table).execute(context)
    assert 9 <= len(polls) <= 20


def test_the_task_polls_again_while_kubernetes_does_not_answer(table, context, kubernetes, caplog):
    def no_answer():
        raise MaxRetryError(None, "/pods")

    kubernetes.phases = ["Running", *[no_answer] * 5, commit_and_succeed(table)]
    assert operator(table).execute(context)["committed"] is True
    assert caplog.text.count("Kubernetes did not answer") == 5


def test_a_task_that_may_not_read_its_pod_fails_and_can_be_retried(table, context, kubernetes):
    def forbid():
        kubernetes.forbidden = {"read_namespaced_pod"}
        return "Running"

    kubernetes.phases = ["Running", forbid]
    with pytest.raises(DeltaJobError, match="The driver may still run and commit"):
        operator(table).execute(context)


def test_the_log_says_once_why_a_pod_waits_for_its_start(table, context, kubernetes, caplog):
    kubernetes.phases = ["Running", *["Pending"] * 30, commit_and_succeed(table)]
    operator(table).execute(context)
    assert caplog.text.count("Insufficient cpu") == 1
