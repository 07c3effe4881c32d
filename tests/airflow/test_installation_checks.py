"""The checks of Airflow's connections in `deltalite doctor`."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite.installation_checks import check_storage_connection, checks
from deltalite.installation.checks import Scope, Status


@pytest.fixture(autouse=True)
def client_process(monkeypatch):
    """Let Airflow look connections up as in the process of a task."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")


def test_a_valid_connection_shows_its_master(monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_MINE", '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}'
    )
    (check,) = checks(Scope(conn_id="mine"))
    assert (check.name, check.status) == ("connection", Status.OK)
    assert "yarn in cluster mode" in check.message


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (None, "no Airflow connection 'mine'"),
        ('{"conn_type": "spark", "host": "mesos://m"}', "mesos://m"),
        ('{"conn_type": "spark", "host": "spark://m", "port": 1, "extra": {"deploy-mode": "cluster"}}', "standalone"),
        ('{"conn_type": "spark", "host": "local", "extra": {"spark-binary": "rm"}}', "spark-binary"),
        ('{"conn_type": "spark", "host": "k8s://https://h:443", "extra": {"deploy-mode": "cluster"}}', "Kubernetes"),
    ],
)
def test_an_invalid_connection_is_an_error_with_a_remedy(monkeypatch, connection, message):
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_MINE", connection)
    (check,) = checks(Scope(conn_id="mine"))
    assert check.status is Status.ERROR and message in check.message and check.remedy


def test_an_unusable_storage_connection_is_an_error(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_MINE", '{"conn_type": "spark", "host": "local"}')
    _, storage_check = checks(Scope(conn_id="mine", table="s3://lake/orders", storage_conn_id="nowhere"))
    assert storage_check.status is Status.ERROR and "'nowhere'" in storage_check.message
    # A local table must not have a storage connection.
    assert check_storage_connection("/lake/orders", "aws").status is Status.ERROR
