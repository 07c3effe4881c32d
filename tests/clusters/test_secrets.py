"""Secret settings reach a job on a real cluster, and no one else can read them there."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.clusters.conftest import SLOW_QUERY, slow_write, wait_until
from tests.support.background_tasks import BackgroundTask

SECRET_START = "planted-5f1c"
SECRET_VALUE = f'{SECRET_START} "quoted" \\ back'
SECRET_VARIABLE = f"{SECRET_START}-token"  # YARN changes quotes and backslashes in variables
SECRET_SETTING = {"spark.sql.example.password": SECRET_VALUE}
SECRET_SETTINGS = SECRET_SETTING | {"spark.executorEnv.EXAMPLE_TOKEN": SECRET_VARIABLE}
SECRET_FILE = f"spark.sql.example.file.password  {SECRET_START}-file\n"
# The driver replaces `${...}` in the query by stars, or by nothing if the setting is missing. Each executor reads its
# environment variable.
LENGTH_COLUMNS = """, length(r'${spark.sql.example.password}') AS on_driver,
    length(r'${spark.sql.example.file.password}') AS of_file,
    length(java_method('java.lang.System', 'getenv', 'EXAMPLE_TOKEN')) AS on_executor,
    length(java_method('java.lang.System', 'getProperty', 'example.password', '')) AS option FROM source"""
SUBMISSIONS = ["local", "standalone", "yarn-client", "yarn-cluster", "pod", "pod-client"]
EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"


def secret_settings(mode) -> dict[str, str]:
    """The settings of a job with secrets. On Kubernetes in client mode, executors read a variable from a Secret."""
    if mode.name == "pod":
        return SECRET_SETTINGS | {
            "spark.kubernetes.driverEnv.EXAMPLE_PASSWORD": SECRET_VALUE,
            EXECUTOR_OPTIONS: f'{mode.settings[EXECUTOR_OPTIONS]} -Dexample.password="{SECRET_VARIABLE}"',
            "spark.kubernetes.authenticate.submission.oauthToken": mode.kubernetes.worker_token,
        }
    if mode.name == "local":
        return SECRET_SETTING
    if mode.name != "pod-client":
        return SECRET_SETTINGS
    metadata = {"name": "example"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": SECRET_VARIABLE}}
    mode.kubernetes.apply(secret)
    return SECRET_SETTING | {"spark.kubernetes.executor.secretKeyRef.EXAMPLE_TOKEN": "example:token"}


@pytest.mark.campaign
@pytest.mark.parametrize("mode", SUBMISSIONS, indirect=True)
def test_secret_settings_reach_the_job_and_other_users_see_them_nowhere(mode, capsys):
    earlier_jobs = mode.applications().keys()
    query = SLOW_QUERY.replace(" FROM source", LENGTH_COLUMNS)
    settings_file = mode.folder / "spark.conf"
    settings_file.write_text(SECRET_FILE)
    settings_file.chmod(0o600)
    parameters = slow_write(mode, "orders", conf=secret_settings(mode), properties_file=str(settings_file))
    parameters["query"] = query
    results = []
    task = threading.Thread(target=lambda: results.append(mode.run(DeltaWriteOperator(**parameters))), daemon=True)
    task.start()
    visible_texts = [capsys.readouterr().out]
    while task.is_alive():
        visible_texts += [*command_lines(), *public_objects(mode)]
        task.join(1)
        assert public_files_with_secrets(mode) == []
    visible_texts.append(capsys.readouterr().out)
    assert [result["committed"] for result in results] == [True]
    secrets = (SECRET_START, *([mode.kubernetes.worker_token] if mode.kubernetes else []))
    assert [text[:2000] for text in visible_texts for secret in secrets if secret in text] == []
    assert public_files_with_secrets(mode) == []
    assert len(mode.applications().keys() - earlier_jobs) <= 1
    check_result = mode.run(
        DeltaWriteOperator(
            **mode.parameters("check", "lengths"),
            source={"format": "delta", "path": f"{mode.lake}/orders"},
            query="SELECT id FROM source WHERE on_driver > 0 AND of_file > 0 "
            f"AND on_executor = {len('null' if mode.name == 'local' else SECRET_VARIABLE)} "
            f"AND option = {len(SECRET_VARIABLE) if mode.name == 'pod' else 0}",
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
    """The objects of jobs that the cluster's API shows, as texts, and the logs of containers. Secrets are left out."""
    if mode.kubernetes is not None:
        kinds = ("pods", "configmaps", "events", "services")
        objects = [mode.kubernetes.kubectl("get", kind, "--output", "json") for kind in kinds]
        pods = [pod["metadata"]["name"] for pod in mode.kubernetes.objects("pods")]
        return objects + [mode.kubernetes.kubectl("logs", pod, check=False) for pod in pods]
    if mode.yarn is not None:
        return [str(mode.yarn.applications()), *mode.yarn.container_logs()]
    return [mode.standalone.state()] if mode.standalone else []


def public_files_with_secrets(mode) -> list[str]:
    """The files of the cluster and of the test that contain a secret and that other users of the machine may read.

    They include the logs of servers and containers, the folders of containers, and Spark's event logs.
    """
    if mode.kubernetes is not None:  # its other folders have the images
        cluster_folders = [mode.kubernetes.folder / "logs", mode.kubernetes.node(1).folder / "pods"]
    else:
        cluster_folders = [cluster.folder for cluster in (mode.standalone, mode.yarn) if cluster]
    names = []
    for parent, folders, files in chain.from_iterable(map(os.walk, [*cluster_folders, mode.folder])):
        folders[:] = [name for name in folders if is_public(Path(parent, name), stat.S_IXOTH)]
        for file in (Path(parent, name) for name in files if is_public(Path(parent, name), stat.S_IROTH)):
            with suppress(FileNotFoundError):
                names += [str(file)] if SECRET_START.encode() in file.read_bytes() else []
    return names


def is_public(path: Path, bit: int) -> bool:
    """Whether a file or folder has this permission bit, and is no link, pipe or socket."""
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        return bool(mode & bit) and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["yarn-client", "yarn-cluster"], indirect=True)
def test_only_the_owner_may_open_the_folder_with_the_settings_that_spark_uploads_to_hdfs(mode):
    parameters = slow_write(mode, "orders", conf=SECRET_SETTINGS)
    with BackgroundTask(lambda: mode.run(DeltaWriteOperator(**parameters))) as task:
        folders = wait_until("Spark uploads the settings", lambda: mode.yarn.permissions_in("/user/root/.sparkStaging"))
    assert task.errors == [] and set(folders.values()) == {"700"}


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["pod"], indirect=True)
def test_the_request_is_in_no_object_that_outlives_the_pod(mode):
    earlier_names = {secret["metadata"]["name"] for secret in mode.kubernetes.objects("secrets")}
    mode.run(DeltaWriteOperator(**slow_write(mode, "orders")))

    def new_secrets():
        names = {secret["metadata"]["name"] for secret in mode.kubernetes.objects("secrets")}
        return [name for name in names - earlier_names if not name.startswith("deltalite-library-")]

    wait_until("the Secret of the job is deleted", lambda: not new_secrets())
