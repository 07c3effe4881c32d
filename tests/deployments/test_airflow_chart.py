"""The values for Airflow's official chart fit the chart, the accounts of `rbac.yaml` and the operator's settings."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.support.airflow_chart import CHECKOUT, VALUES, objects_of_the_chart

RBAC = CHECKOUT / "deployments" / "kubernetes" / "rbac.yaml"
# A comment in the Dockerfile of each image, and the chart's values, have these names.
IMAGES = {
    "airflow": "registry.example.com/airflow-deltalite:3.3.2",
    "spark": "registry.example.com/spark-deltalite:4.3.0",
}


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    """The objects that the chart makes from the values."""
    return objects_of_the_chart("airflow")


def pod_of(objects: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The pod template of a Deployment or StatefulSet."""
    (workload,) = [o for o in objects if o["kind"] in ("Deployment", "StatefulSet") and o["metadata"]["name"] == name]
    return workload["spec"]["template"]["spec"]


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """The variables of the first container that have a value."""
    return {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}


def accounts_in_rbac() -> set[str]:
    """The accounts in the namespace `airflow` that `rbac.yaml` gives permissions to."""
    bindings = [o for o in yaml.safe_load_all(RBAC.read_text()) if o["kind"] == "RoleBinding"]
    subjects = [subject for binding in bindings for subject in binding["subjects"]]
    return {subject["name"] for subject in subjects if subject["namespace"] == "airflow"}


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["airflow-worker", "airflow-triggerer"])
def test_workers_and_triggerer_run_as_the_accounts_of_rbac_yaml(objects, name):
    pod = pod_of(objects, name)
    assert pod["serviceAccountName"] == name
    assert name in accounts_in_rbac()
    (account,) = [o for o in objects if o["kind"] == "ServiceAccount" and o["metadata"]["name"] == name]
    assert account["automountServiceAccountToken"] is True
    assert pod["containers"][0]["image"] == IMAGES["airflow"]
    variables = environment(pod)
    connection = json.loads(variables["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert connection["host"].startswith("k8s://https://")
    assert connection["extra"] == {"deploy-mode": "cluster", "namespace": "spark"}


@pytest.mark.campaign
def test_the_chart_grants_no_permissions_to_the_accounts_and_only_two_accounts_get_a_token(objects):
    assert [o["metadata"]["name"] for o in objects if o["kind"] in ("ClusterRole", "ClusterRoleBinding")] == []
    subjects = [s["name"] for o in objects if o["kind"] == "RoleBinding" for s in o["subjects"]]
    assert accounts_in_rbac() == {"airflow-worker", "airflow-triggerer"}
    assert accounts_in_rbac().isdisjoint(subjects)
    for name in ("airflow-scheduler", "airflow-api-server", "airflow-dag-processor"):
        (account,) = [o for o in objects if o["kind"] == "ServiceAccount" and o["metadata"]["name"] == name]
        assert account["automountServiceAccountToken"] is False


@pytest.mark.campaign
def test_spark_reads_the_settings_of_the_jobs_on_the_worker(objects):
    pod = pod_of(objects, "airflow-worker")
    folder = environment(pod)["SPARK_CONF_DIR"]
    (mount,) = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["mountPath"] == folder]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
    (config_map,) = [
        o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == volume["configMap"]["name"]
    ]
    settings = dict(line.split("=", 1) for line in config_map["data"]["spark-defaults.conf"].splitlines())
    assert settings["spark.kubernetes.container.image"] == IMAGES["spark"]
    assert settings["spark.kubernetes.authenticate.driver.serviceAccountName"] == "spark"


@pytest.mark.campaign
def test_airflow_reads_the_cluster_setting(objects):
    (config_map,) = [o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == "airflow-config"]
    assert "in_cluster = True" in config_map["data"]["airflow.cfg"]


@pytest.mark.parametrize(("name", "folder"), [("airflow", "airflow"), ("spark", "kubernetes")])
def test_the_dockerfiles_build_the_images_of_the_values(name, folder):
    assert f"--tag {IMAGES[name]} ." in (CHECKOUT / "deployments" / folder / "Dockerfile").read_text()
    repository, _, tag = IMAGES[name].rpartition(":")
    values = VALUES.read_text()
    assert repository in values and tag in values
