"""Secret settings reach a job on a real cluster, and no one else can read them there."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import SLOW_QUERY, slow_write, wait_until

SECRET_VALUE = 'planted-5f1c "quoted" \\ back'
SECRET_VARIABLE = "planted-5f1c-token"  # YARN changes quotes and backslashes in variables
SECRET_SETTINGS = {"spark.sql.example.password": SECRET_VALUE, "spark.executorEnv.EXAMPLE_TOKEN": SECRET_VARIABLE}
# The driver replaces `${...}` in the query by stars, or by nothing if the setting is missing. Each executor reads its
# environment variable.
LENGTH_COLUMNS = """, length(r'${spark.sql.example.password}') AS on_driver,
    length(java_method('java.lang.System', 'getenv', 'EXAMPLE_TOKEN')) AS on_executor FROM source"""
DRIVER_VARIABLE = {"spark.kubernetes.driverEnv.EXAMPLE_PASSWORD": SECRET_VALUE}


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["yarn-cluster", "pod"], indirect=True)
def test_secret_settings_reach_the_job_and_are_in_no_process_list_object_or_log(mode, capsys):
    earlier_jobs = mode.applications().keys()
    conf = SECRET_SETTINGS | (DRIVER_VARIABLE if mode.kubernetes else {})
    parameters = slow_write(mode, "orders", conf=conf) | {"query": SLOW_QUERY.replace(" FROM source", LENGTH_COLUMNS)}
    results = []
    task = threading.Thread(target=lambda: results.append(mode.run(DeltaWriteOperator(**parameters))), daemon=True)
    task.start()
    visible_texts = [capsys.readouterr().out]
    while task.is_alive():
        visible_texts += [*command_lines(), *public_objects(mode)]
        task.join(1)
    visible_texts.append(capsys.readouterr().out)
    assert [result["committed"] for result in results] == [True]
    assert [text[:2000] for text in visible_texts if "planted-5f1c" in text] == []
    assert len(mode.applications().keys() - earlier_jobs) <= 1
    check_result = mode.run(
        DeltaWriteOperator(
            **mode.parameters("check", "lengths"),
            source={"format": "delta", "path": f"{mode.lake}/orders"},
            query=f"SELECT id FROM source WHERE on_driver > 0 AND on_executor = {len(SECRET_VARIABLE)}",
        )
    )
    assert check_result["metrics"]["numOutputRows"] == 1


def command_lines() -> list[str]:
    """The command lines of all processes on this machine. The processes of the cluster are among them."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            lines.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return lines


def public_objects(mode) -> list[str]:
    """The objects of jobs that the cluster's API shows, as texts. Secrets are left out."""
    if mode.kubernetes is None:
        return [str(mode.yarn.applications())]
    kinds = ("pods", "configmaps", "events", "services")
    return [mode.kubernetes.kubectl("get", kind, "--output", "json") for kind in kinds]


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["pod"], indirect=True)
def test_the_request_is_in_no_object_that_outlives_the_pod(mode):
    earlier_names = {secret["metadata"]["name"] for secret in mode.kubernetes.objects("secrets")}
    mode.run(DeltaWriteOperator(**slow_write(mode, "orders")))

    def new_secrets():
        names = {secret["metadata"]["name"] for secret in mode.kubernetes.objects("secrets")}
        return [name for name in names - earlier_names if not name.startswith("deltalite-library-")]

    wait_until("the Secret of the job is deleted", lambda: not new_secrets())
