"""A YARN that aggregates logs: the operator reads the log of an ended driver from YARN's log server."""

from __future__ import annotations

import urllib.request
from urllib.parse import urlsplit

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_deltalite.clusters import yarn_log
from airflow_provider_deltalite.clusters.yarn_log import DriverLogError, read_yarn_driver_log
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import slow_write, submit_and_kill_worker, wait_until
from tests.support.clusters.yarn import AGGREGATED_LOGS, yarn_cluster

pytestmark = pytest.mark.campaign
IN_CLUSTER_MODE = pytest.mark.parametrize("mode", ["yarn-cluster"], indirect=True)


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    """A YARN that aggregates logs, in the place of the cluster of the other tests."""
    with yarn_cluster(tmp_path_factory.mktemp("yarn"), aggregates_logs=True) as cluster:
        yield cluster


@IN_CLUSTER_MODE
def test_a_retry_returns_the_result_from_the_aggregated_log_of_its_job(mode, capsys, monkeypatch):
    parameters = slow_write(mode, "orders")
    application = aggregated_application(mode, parameters)
    assert mode.yarn.log_server in address_of_log(application)
    result = mode.run(DeltaWriteOperator(**parameters), try_number=2)
    assert (result["version"], result["committed"], result["metrics"]["numOutputRows"]) == (0, True, 1)
    assert f"Log of the driver of {application['id']}" in capsys.readouterr().out
    # A lost NodeManager does not store its log file. The log server then answers with HTTP 200.
    host = urlsplit(application["amContainerLogs"]).hostname
    (file,) = [name for name in mode.yarn.files_below(AGGREGATED_LOGS) if f"/{host}_" in name]
    mode.yarn.delete(f"{AGGREGATED_LOGS}/{file}")
    monkeypatch.setattr(yarn_log, "_PAUSE_SECONDS", 0)
    with pytest.raises(DriverLogError, match="Can not find logs"):
        read_yarn_driver_log(mode.yarn.resource_manager, application["id"])


@IN_CLUSTER_MODE
def test_a_permanent_error_of_the_driver_is_typed(mode, capsys):
    parameters = slow_write(mode, "orders") | {"query": "SELECT missing FROM source"}
    with pytest.raises(AirflowFailException, match=r"(?s)InvalidRequestError: .*missing"):
        mode.run(DeltaWriteOperator(**parameters))
    assert "Traceback of the job" in capsys.readouterr().out


def aggregated_application(mode, parameters):
    """Kill the worker of a task after the submission, and return its application when YARN has aggregated its logs."""
    job_id = submit_and_kill_worker(mode, parameters)

    def aggregated():
        (application,) = [entry for entry in mode.yarn.applications() if entry["id"] == job_id]
        return application if application["logAggregationStatus"] == "SUCCEEDED" else None

    return wait_until("YARN has aggregated the logs", aggregated)


def address_of_log(application) -> str:
    """The address from which the NodeManager's service, or the server to which it redirects, sends the driver's log."""
    node, _, container = application["amContainerLogs"].partition("/node/containerlogs/")
    path = f"/ws/v1/node/containers/{container.partition('/')[0]}/logs/stdout"
    with urllib.request.urlopen(f"{node}{path}", timeout=30) as answer:
        return answer.geturl()
