"""Jobs whose driver is a pod of Kubernetes, with stand-ins for the cluster's API and for `spark-submit`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest
from airflow.providers.cncf.kubernetes import kube_client
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_deltalite.clusters.driver_pod import DriverPod, pod_name
from airflow_provider_deltalite.clusters.kubernetes_api import KubernetesError
from airflow_provider_deltalite.clusters.pod_secrets import PodSecrets
from airflow_provider_deltalite.clusters.unowned_secrets import POD_ANNOTATION, clean_up_unowned_secrets
from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from airflow_provider_deltalite.shipping import ship_job
from deltalite.errors import InvalidRequestError
from deltalite.markers import error_marker
from tests.support.airflow_versions import since_3_3
from tests.support.background_tasks import BackgroundTask
from tests.support.kubernetes_client import NAMESPACE, POD, UID
from tests.support.stand_in_jobs import commit_as_driver, job_that_commits

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": UID}
PRINT_POD_NAME = f"print('26/01/01 00:00:00 INFO LoggingPodStatusWatcherImpl: pod name: {POD}', flush=True)\n"


def operator(table, *, conf=None, **parameters) -> DeltaWriteOperator:
    """The task `load`, whose pod has the name `POD`."""
    defaults = {"task_id": "load", "table": str(table), "source": {"format": "csv", "path": "/in"}, "retries": 2}
    return DeltaWriteOperator(**{**defaults, "shared_folder": True, "conf": conf, **parameters})


def commit_and_succeed(table, **options):
    """Return a function that makes the commit of the driver, and returns the phase of a pod that succeeded."""

    def phase():
        commit_as_driver(table, **options)
        return "Succeeded"

    return phase


def settings_of(argv: list[str]) -> dict[str, str]:
    """The settings among the arguments of spark-submit."""
    values = [value for option, value in pairwise(argv) if option == "--conf"]
    return dict(value.split("=", 1) for value in values)


@since_3_3
def test_a_submitted_or_joined_pod_that_succeeded_returns_its_commit(table, spark_submit, context, kubernetes):
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    first_result = operator(table, mode="overwrite").execute(context)
    assert (first_result["version"], first_result["committed"]) == (1, True)
    assert kubernetes.deleted_pods == [POD]
    assert settings_of(spark_submit.argv)["spark.kubernetes.submission.waitAppCompletion"] == "false"
    context["ti"].max_tries += 1
    context["task_state_store"].set("spark_job_id_1", f"{NAMESPACE}:{POD}")
    spark_submit.call_file.unlink()
    kubernetes.deleted_pods.clear()
    kubernetes.phases = ["Running", commit_and_succeed(table, version=2, txn=1)]
    joined_result = operator(table, mode="overwrite").execute(context)
    assert (joined_result["version"], joined_result["txn_version"], joined_result["committed"]) == (2, 1, True)
    assert not spark_submit.was_called


def test_the_pod_gets_its_job_from_secrets_and_owns_the_secret_of_the_request(table, spark_submit, context, kubernetes):
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    conf = {
        "spark.hadoop.fs.s3a.secret.key": 'planted "value"',
        "spark.kubernetes.driverEnv.DB_PASSWORD": "planted-variable",
        "spark.driver.defaultJavaOptions": "-Dmine=1",
    }
    operator(table, conf=conf).execute(context)
    job_files, library_files = (kubernetes.files_of(f"deltalite-{kind}-") for kind in ("job", "library"))
    assert json.loads(job_files["request.json"])["table"] == str(table)
    assert job_files["java.args"] == b'"-Dspark.hadoop.fs.s3a.secret.key=planted \\"value\\""\n'
    assert job_files["driver.DB_PASSWORD"] == b"planted-variable"
    assert len([name for name in library_files if name.endswith(".zip.gz")]) == 1 and "zipped_job.py" in library_files
    settings, argv = settings_of(spark_submit.argv), spark_submit.argv
    assert argv[-3:] == ["local:///etc/deltalite/library/zipped_job.py", "write", "/etc/deltalite/job/request.json"]
    assert settings["spark.driver.defaultJavaOptions"] == "-Dmine=1 @/etc/deltalite/job/java.args"
    assert "planted" not in " ".join(argv)
    (secret_name,) = [name for name in kubernetes.secrets if name.startswith("deltalite-job-")]
    assert settings["spark.kubernetes.driver.secretKeyRef.DB_PASSWORD"] == f"{secret_name}:driver.DB_PASSWORD"
    assert settings[f"spark.kubernetes.driver.secrets.{secret_name}"] == "/etc/deltalite/job"
    assert kubernetes.secrets[secret_name].metadata.owner_references == [OWNER]


def test_the_log_of_the_pod_has_the_error_and_its_traceback(table, spark_submit, context, kubernetes, capsys):
    # This packs the library, so the task finds an existing zip.
    with ship_job("write", lambda nonce: nonce):
        pass

    def fail() -> str:
        nonce = json.loads(kubernetes.files_of("deltalite-job-")["request.json"])["nonce"]
        lines = ["Traceback (most recent call last):", '  File "write.py", line 1', "ValueError: column x"]
        kubernetes.log = "\n".join([*lines, error_marker("SchemaMismatchError", "column x", nonce=nonce), ""])
        return "Failed"

    kubernetes.phases, kubernetes.exit_code = ["Running", fail], 51
    with pytest.raises(AirflowFailException, match="SchemaMismatchError: column x"):
        operator(table).execute(context)
    log = capsys.readouterr().out
    assert f"Log of the driver of {POD}" in log and "Traceback of the job" in log
    assert kubernetes.deleted_pods == []


def test_the_exit_code_of_a_failed_pod_names_the_error_if_its_log_is_lost(table, context, kubernetes, capsys):
    kubernetes.phases, kubernetes.exit_code, kubernetes.log = ["Running", "Failed"], 51, None
    with pytest.raises(AirflowFailException, match="SchemaMismatchError"):
        operator(table).execute(context)
    assert "Could not read the log of the driver" in capsys.readouterr().out


@since_3_3
@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_retry_does_not_join_a_pod_that_is_being_deleted(table, spark_submit, context, kubernetes, phase):
    context["task_state_store"].set("spark_job_id_0", f"{NAMESPACE}:{POD}")
    kubernetes.is_being_deleted = True
    kubernetes.phases = [phase, phase, "Running", commit_and_succeed(table)]
    result = operator(table).execute(context)
    assert spark_submit.was_called
    assert (result["version"], result["committed"], result["skipped"]) == (1, True, False)


@since_3_3
def test_a_missing_pod_is_a_success_only_if_it_has_committed(table, context, kubernetes):
    kubernetes.phases = ["Running", None]
    load = operator(table)
    with pytest.raises(DeltaJobError, match=f"{POD} no longer exists"):
        load.execute(context)
    context["task_state_store"].values.clear()
    commit_as_driver(table)
    assert load.execute(context)["skipped"] is True


def test_without_tracking_the_exit_code_in_the_output_of_spark_submit_decides(table, spark_submit, context, kubernetes):
    spark_submit.set_script(PRINT_POD_NAME + "print('\\t exit code: 84')\n")
    with pytest.raises(DeltaConflictError):
        operator(table, track_driver_via_k8s_api=False).execute(context)
    # Airflow's hook treats an output without an exit code as a failure.
    spark_submit.set_script(PRINT_POD_NAME + job_that_commits(table))
    assert operator(table, track_driver_via_k8s_api=False).execute(context)["version"] == 1


def test_without_tracking_spark_submit_waits_for_the_job_whatever_its_defaults_say(
    table, spark_submit, context, kubernetes
):
    setting = "spark.kubernetes.submission.waitAppCompletion"
    spark_submit.set_script(PRINT_POD_NAME + job_that_commits(table))
    operator(table, track_driver_via_k8s_api=False).execute(context)
    assert settings_of(spark_submit.argv)[setting] == "true"
    spark_submit.call_file.unlink()
    with pytest.raises(AirflowFailException, match=rf"(?s)InvalidRequestError: .*{setting} to 'false'"):
        operator(table, idempotency_key="another", conf={setting: "False"}, track_driver_via_k8s_api=False).execute(
            context
        )
    assert not spark_submit.was_called


def test_a_submission_that_creates_no_pod_leaves_no_request_and_reads_no_log(
    table, spark_submit, context, kubernetes, capsys
):
    kubernetes.phases = [None]
    spark_submit.set_script("sys.exit(1)")
    with pytest.raises(DeltaJobError):
        operator(table).execute(context)
    assert [name for name in kubernetes.secrets if name.startswith("deltalite-job-")] == []
    assert "Could not read the log of the driver" not in capsys.readouterr().out


@pytest.mark.parametrize("is_tracked", [True, False])
def test_a_kill_deletes_the_pod_that_the_worker_named_and_no_other(
    table, spark_submit, context, kubernetes, is_tracked
):
    print_other_pod_name = "print('INFO LoggingPodStatusWatcherImpl: pod name: of-another-job-driver', flush=True)\n"
    sleep_code = "" if is_tracked else "import time; time.sleep(600)"
    spark_submit.set_script(f"{print_other_pod_name}{sleep_code}")
    load = operator(table, track_driver_via_k8s_api=is_tracked)
    kubernetes.phases = ["Running"]
    with BackgroundTask(lambda: load.execute(context)) as background:
        # The fixture replaces `time.sleep`, so this thread waits for an event that is never set.
        never_set, deadline = threading.Event(), time.monotonic() + 60
        while not spark_submit.was_called and time.monotonic() < deadline:
            never_set.wait(0.02)
        load.on_kill()
    assert len(background.errors) == 1
    assert kubernetes.deleted_pods == [POD]


def test_a_kill_logs_how_to_end_a_pod_that_it_cannot_delete(table, context, kubernetes, caplog):
    load = operator(table)

    def kill() -> str:
        load.on_kill()
        return "Failed"

    kubernetes.forbidden = {"delete_namespaced_pod"}
    kubernetes.phases = ["Running", kill]
    with pytest.raises(AirflowException):
        load.execute(context)
    assert f"kubectl delete pod {POD} --namespace {NAMESPACE}" in caplog.text


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("create_namespaced_secret", "Could not create the Secret deltalite-library-"),
        ("patch_namespaced_secret", None),
        ("list_namespaced_secret", None),
    ],
)
def test_a_missing_permission_fails_the_task_only_if_the_job_cannot_run(
    table, spark_submit, context, kubernetes, method, problem
):
    kubernetes.forbidden = {method}
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    if problem is None:
        assert operator(table).execute(context)["version"] == 1
    else:
        with pytest.raises(AirflowFailException, match=f"(?s){problem}.* 403 .*permissions"):
            operator(table).execute(context)
        assert not spark_submit.was_called


def test_a_request_that_the_cluster_rejects_is_an_error_about_the_request(table, spark_submit, context, kubernetes):
    kubernetes.rejection = 422
    with pytest.raises(AirflowFailException, match=r"(?s)answered 422 .*must fit into 1 MiB"):
        operator(table).execute(context)
    assert not spark_submit.was_called


def test_a_cluster_that_does_not_answer_is_asked_again_by_a_retry(table, spark_submit, context, kubernetes):
    kubernetes.rejection = 503
    with pytest.raises(KubernetesError, match=r"Could not create the Secret .*503"):
        operator(table).execute(context)
    assert not spark_submit.was_called


def test_a_pod_stays_if_its_log_cannot_be_read_because_a_retry_may_need_it(table, context, kubernetes, capsys):
    kubernetes.forbidden = {"read_namespaced_pod_log"}
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    assert operator(table).execute(context)["version"] == 1
    assert kubernetes.deleted_pods == []
    assert "Could not read the log of the driver" in capsys.readouterr().out


def test_a_task_that_is_stopped_while_it_creates_the_secrets_submits_nothing(table, spark_submit, context, kubernetes):
    load = operator(table)
    kubernetes.before_secret = load.on_kill
    kubernetes.phases = [None]
    with pytest.raises(AirflowException, match="stopped before it submitted"):
        load.execute(context)
    assert not spark_submit.was_called
    assert [name for name in kubernetes.secrets if name.startswith("deltalite-job-")] == []


def test_a_pod_name_of_the_user_is_rejected(table, spark_submit, context, kubernetes):
    with pytest.raises(AirflowFailException, match=r"spark\.kubernetes\.driver\.pod\.name"):
        operator(table, conf={"spark.kubernetes.driver.pod.name": "nightly"}).execute(context)
    assert not spark_submit.was_called


@pytest.mark.parametrize("application", ["Tägliche Umsätze 2026.load (deltalite write)", "", "x" * 200])
def test_the_name_of_a_pod_is_valid_as_a_host_name(application):
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{,61}[a-z0-9])?", pod_name(application, "0123456789abcdef"))


def test_secret_options_and_variables_of_driver_and_executors_stay_apart_and_hidden(
    table, spark_submit, context, kubernetes
):
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    conf = {
        "spark.driver.defaultJavaOptions": "-Dx.password=planted-option",
        "spark.kubernetes.driverEnv.DB_PASSWORD": "planted-driver",
        "spark.executorEnv.DB_PASSWORD": "planted-executor",
    }
    operator(table, conf=conf).execute(context)
    job = kubernetes.files_of("deltalite-job-")
    assert job["java.args"] == b'"-Dx.password=planted-option"\n'
    assert (job["driver.DB_PASSWORD"], job["executor.DB_PASSWORD"]) == (b"planted-driver", b"planted-executor")
    assert "planted" not in " ".join(spark_submit.argv)


@since_3_3
def test_a_changed_library_in_the_cluster_is_not_run(table, spark_submit, context, kubernetes):
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    operator(table).execute(context)
    (secret_name,) = [name for name in kubernetes.secrets if name.startswith("deltalite-library-")]
    kubernetes.secrets[secret_name].data = {"zipped_job.py": "eA=="}
    context["task_state_store"].values.clear()
    spark_submit.call_file.unlink()
    with pytest.raises(AirflowFailException, match=f"(?s){secret_name}.* does not contain the library of this worker"):
        operator(table, idempotency_key="another").execute(context)
    assert not spark_submit.was_called


def add_old_secret(kubernetes, name, *, annotations=None, owners=None) -> None:
    """Add the Secret of a job that another task created more than an hour ago."""
    labels = {"app.kubernetes.io/managed-by": "airflow-provider-deltalite", "app.kubernetes.io/component": "job"}
    kubernetes.add_secret(name, age_seconds=4000, labels=labels, annotations=annotations)
    kubernetes.secrets[name].metadata.owner_references = owners


def test_the_next_task_deletes_old_secrets_of_jobs_without_a_pod(table, context, kubernetes):
    add_old_secret(kubernetes, "deltalite-job-of-no-pod")
    add_old_secret(kubernetes, "deltalite-job-of-deleted-pod", annotations={POD_ANNOTATION: "load-77-driver"})
    add_old_secret(kubernetes, "deltalite-job-owned", owners=[{"name": "a-pod"}])
    kubernetes.add_secret("deltalite-job-new", labels=kubernetes.secrets["deltalite-job-owned"].metadata.labels)
    kubernetes.add_secret("secret-of-a-user", age_seconds=4000)
    kubernetes.phases = ["Running", commit_and_succeed(table)]
    operator(table).execute(context)
    assert kubernetes.secrets.keys().isdisjoint({"deltalite-job-of-no-pod", "deltalite-job-of-deleted-pod"})
    assert {"deltalite-job-owned", "deltalite-job-new", "secret-of-a-user"} <= kubernetes.secrets.keys()


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed", "unknown"])
def test_an_old_secret_stays_as_long_as_its_pod_may_need_it(kubernetes, phase):
    add_old_secret(kubernetes, "deltalite-job-old", annotations={POD_ANNOTATION: POD})
    kubernetes.phases = [phase]
    if phase == "unknown":
        kubernetes.forbidden = {"read_namespaced_pod"}
    clean_up_unowned_secrets(kubernetes, NAMESPACE)
    if phase in ("Succeeded", "Failed"):
        assert kubernetes.secrets == {}
    else:
        owners = kubernetes.secrets["deltalite-job-old"].metadata.owner_references
        assert owners == ([OWNER] if phase != "unknown" else None)


def test_a_secret_that_got_no_owner_names_its_pod_and_is_deleted_after_the_pod(table, context, kubernetes):
    annotations = []

    def run():
        annotations.extend(secret.metadata.annotations for secret in kubernetes.secrets.values())
        return "Running"

    kubernetes.forbidden = {"patch_namespaced_secret"}
    kubernetes.phases = [run, commit_and_succeed(table)]
    operator(table).execute(context)
    assert {POD_ANNOTATION: POD} in annotations
    assert kubernetes.deleted_pods == [POD]
    assert [name for name in kubernetes.secrets if name.startswith("deltalite-job-")] == []


def test_the_client_and_the_namespace_are_checked_before_the_submission(
    table, spark_submit, context, kubernetes, monkeypatch
):
    def load_no_client():
        raise RuntimeError("Service host/port is not set.")

    monkeypatch.setattr(kube_client, "get_kube_client", load_no_client)
    with pytest.raises(AirflowFailException, match=r"(?s)host/port is not set.*in_cluster.*config_file"):
        operator(table).execute(context)
    connection = {"conn_type": "spark", "host": "k8s://https://k8s:443", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    with pytest.raises(AirflowFailException, match=r"(?s)namespace.*'spark_default'"):
        operator(table, track_driver_via_k8s_api=False).execute(context)
    assert not spark_submit.was_called


def test_the_library_fits_into_a_secret(kubernetes):
    with ship_job("write", lambda nonce: nonce) as job:
        pod = DriverPod(api=kubernetes, namespace=NAMESPACE, name=POD)
        PodSecrets(pod=pod, job=job).create({}, {})
    size = sum(len(content) for content in kubernetes.files_of("deltalite-library-").values())
    assert size < 0.9 * 1024 * 1024, "Kubernetes limits a Secret to 1 MiB. Split the library into two Secrets."


def test_a_driver_imports_the_modules_of_the_secret_and_leaves_no_file_behind(kubernetes, tmp_path):
    with ship_job("write", lambda nonce: nonce) as job:
        PodSecrets(pod=DriverPod(api=kubernetes, namespace=NAMESPACE, name=POD), job=job).create({}, {})
    for name, content in kubernetes.files_of("deltalite-library-").items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "tmp").mkdir()
    process = subprocess.run(
        [sys.executable, "-S", tmp_path / "zipped_job.py", "write", "request.json"],
        env={"TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    # Without the packages of this environment, the job reports that its Python lacks them.
    assert process.returncode == InvalidRequestError.exit_code
    assert "lacks numpy and pyarrow" in process.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
