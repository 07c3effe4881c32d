"""The real client of Kubernetes, in front of a server that answers as the API server does."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from airflow_provider_deltalite.clusters.driver_pod import DriverPod
from airflow_provider_deltalite.clusters.driver_state import DriverState
from airflow_provider_deltalite.clusters.kubernetes_api import KubernetesError, load_client
from airflow_provider_deltalite.clusters.log_lines import DriverLogError
from deltalite.errors import InvalidRequestError
from tests.support.kubernetes_server import ApiServer, pod_in, use_api_server
from tests.support.ports import free_ports

RETRY_VARIABLE = "AIRFLOW__KUBERNETES_EXECUTOR__API_CLIENT_RETRY_CONFIGURATION"


@pytest.fixture
def port() -> int:
    (port,) = free_ports(1)
    return port


@pytest.fixture
def pod(port, tmp_path, monkeypatch) -> DriverPod:
    """A pod of the cluster at `port`, with the client that a worker loads."""
    monkeypatch.setenv(RETRY_VARIABLE, "{}")  # monkeypatch then removes the value that the client sets
    use_api_server(monkeypatch, port, tmp_path)
    return DriverPod(api=load_client("spark_default"), namespace="lake", name="load-driver")


def test_a_request_is_repeated_until_the_cluster_can_be_reached(port, pod):
    states = []
    reader = threading.Thread(target=lambda: states.append(pod.state()))
    reader.start()
    reader.join(1)
    assert reader.is_alive()  # nothing listens at the port yet
    with ApiServer(port) as server:
        server.body = pod_in("Running")
        reader.join(30)
    assert states == [DriverState.RUNNING]


def test_the_retries_in_the_configuration_of_airflow_apply(pod, monkeypatch):
    monkeypatch.setenv(RETRY_VARIABLE, '{"total": 0}')
    client_without_retries = load_client("spark_default")
    assert client_without_retries.api_client.configuration.retries.total == 0


@pytest.mark.parametrize(
    ("status", "error_class", "text"),
    [
        (403, InvalidRequestError, r"answered 403 \(the account may not\).*permissions"),
        (500, KubernetesError, r"answered 500 \(the account may not\)"),
    ],
)
def test_the_error_names_the_request_and_the_answer(port, pod, status, error_class, text):
    with ApiServer(port) as server:
        server.status, server.body = status, json.dumps({"message": "the account may not"})
        with pytest.raises(error_class, match=f"(?s)Could not read the pod load-driver: Kubernetes {text}"):
            pod.state()


def test_a_pod_that_does_not_exist_takes_no_secret_and_has_no_log(port, pod):
    with ApiServer(port) as server:
        server.status, server.body = 404, json.dumps({"message": "not found"})
        assert pod.state() is DriverState.MISSING
        assert not pod.become_owner("deltalite-job-1")
        assert not pod.is_being_deleted()
        with pytest.raises(DriverLogError, match="answered 404"):
            pod.read_log()


def test_a_pod_with_a_time_of_deletion_is_being_deleted(port, pod):
    with ApiServer(port) as server:
        server.body = pod_in("Running")
        assert not pod.is_being_deleted()
        metadata = {"name": "load-driver", "deletionTimestamp": "2026-01-01T00:00:00Z"}
        server.body = json.dumps(json.loads(server.body) | {"metadata": metadata})
        assert pod.is_being_deleted()


def test_the_log_of_the_only_container_is_read(port, pod):
    with ApiServer(port) as server:
        assert pod.read_log() == [server.body]  # the server answers every request with the same text
        assert server.paths[1].startswith("/api/v1/namespaces/lake/pods/load-driver/log?container=main&")


def test_bodies_of_answers_are_not_logged(port, pod, caplog):
    caplog.set_level(logging.DEBUG)
    with ApiServer(port) as server:
        server.body = json.dumps({"metadata": {"name": "a"}, "data": {"request.json": "cGxhbnRlZA=="}})
        pod.api.read_namespaced_secret("a", "lake")
    assert "cGxhbnRlZA==" not in caplog.text
