"""A driver on this worker uses an archive of Spark's classes. The worker makes one after a job in local mode."""

from __future__ import annotations

import logging
import os
import sys
import time

import pytest

from airflow_provider_deltalite.hooks._class_archive import archive_options, make_archive_later
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from airflow_provider_deltalite.preflight import Launch
from deltalite.installation.class_archive import LOCK_FILE, use_file
from deltalite.installation.class_archive_making import make_archive
from deltalite.installation.private_folder import lock, open_private_folder, private_folder_path
from tests.support.class_archives import FAIL, StandIn, stand_in_for_spark
from tests.support.stand_in_jobs import PRINT_RESULT
from tests.support.waiting import wait_until

USER_OPTIONS = "-Dx=1"


@pytest.fixture
def worker(tmp_path, monkeypatch) -> StandIn:
    """A worker on which class archives are switched on."""
    monkeypatch.setenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE", "auto")
    return stand_in_for_spark(tmp_path, monkeypatch)


def launch(worker: StandIn, *, master: str = "local[2]", mode: str | None = None, **variables: str) -> Launch:
    environ = {**worker.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    return Launch(conn_id="c", master=master, deploy_mode=mode, binary=worker.program, environ=environ)


def has_failed(worker: StandIn) -> bool:
    """Whether the worker tried to make an archive, and failed."""
    return "exit code" in (worker.name.recent_failure(now=time.time()) or "")


@pytest.mark.parametrize("setting", ["auto", "use", None])
def test_a_driver_on_this_worker_uses_the_archive(worker, monkeypatch, setting):
    monkeypatch.delenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE")
    if setting is not None:
        monkeypatch.setenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE", setting)
    assert archive_options(launch(worker), "") is None
    archive = make_archive(worker.program, worker.environ).path
    os.utime(archive, (1, 1))
    expected = f"-XX:SharedArchiveFile={archive} -Xlog:cds*=off"
    assert archive_options(launch(worker), "-Dx=1") == expected
    assert use_file(archive).is_file() and archive.stat().st_mtime == 1
    for master in ("yarn", "spark://h:7077", "k8s://https://h"):
        assert archive_options(launch(worker, master=master, mode="client"), "") == expected


def test_a_driver_in_a_cluster_and_a_user_who_chooses_an_archive_get_no_option(worker):
    make_archive(worker.program, worker.environ)
    assert archive_options(launch(worker, master="yarn", mode="cluster"), "") is None
    assert archive_options(launch(worker), "-Xmx1g -Xshare:off") is None
    assert archive_options(launch(worker), "-XX:SharedArchiveFile=/mine.jsa") is None


def test_no_archive_is_used_or_made_if_another_user_may_write_to_the_folder(worker):
    make_archive(worker.program, worker.environ)
    private_folder_path().chmod(0o777)
    assert archive_options(launch(worker), "") is None
    make_archive_later(launch(worker))
    assert not (private_folder_path() / "spark-classes.log").exists()


@pytest.mark.parametrize("setting", ["off", "always"])
def test_no_archive_is_used_or_made_if_the_setting_is_off_or_invalid(worker, monkeypatch, caplog, setting):
    monkeypatch.setenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE", setting)
    make_archive_later(launch(worker))
    assert worker.runs == 0 and not private_folder_path().exists()
    make_archive(worker.program, worker.environ)
    assert archive_options(launch(worker), "") is None
    assert ("Set it to one of 'use', 'auto', 'off'" in caplog.text) == (setting == "always")


def test_a_worker_in_local_mode_makes_an_archive_in_the_background(worker, caplog):
    caplog.set_level(logging.INFO)
    make_archive_later(launch(worker))
    assert f"its log is {private_folder_path() / 'spark-classes.log'}" in caplog.text
    wait_until(worker.name.find)
    assert archive_options(launch(worker), "") is not None
    wait_until(lambda: "Made the archive" in (private_folder_path() / "spark-classes.log").read_text())
    caplog.clear()
    make_archive_later(launch(worker))
    assert not caplog.text and worker.runs == 1


@pytest.mark.slow
def test_no_archive_is_made_for_a_cluster_while_another_process_makes_one_or_after_a_failure(
    worker, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)
    for master in ("yarn", "spark://h:7077"):
        make_archive_later(launch(worker, master=master, mode="client"))
    lock_file = open_private_folder() / LOCK_FILE
    lock_file.touch()
    with lock(lock_file):
        make_archive_later(launch(worker))
    monkeypatch.setenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE", "use")
    make_archive_later(launch(worker))
    monkeypatch.setenv("AIRFLOW__DELTALITE__CLASS_ARCHIVE", "auto")
    worker.set_program(FAIL)
    assert not caplog.text
    make_archive_later(launch(worker))
    wait_until(lambda: has_failed(worker))
    caplog.clear()
    make_archive_later(launch(worker))
    assert worker.runs == 1 and not caplog.text


def test_the_command_in_the_background_gets_no_secret_of_the_task(worker):
    worker.set_program('#!/bin/sh\nenv >"${0%/spark/bin/*}/variables"\nprintf classes >"${SPARK_SUBMIT_OPTS#*=}"\n')
    secrets = {"LDAP_PASSWORD": "planted", "AWS_SECRET_ACCESS_KEY": "planted", "SPARK_SECRET": "planted"}
    make_archive_later(launch(worker, **secrets, SPARK_SUBMIT_OPTS="-Dpassword=planted"))
    wait_until(worker.name.find)
    variables = (worker.folder / "variables").read_text()
    assert f"SPARK_HOME={worker.environ['SPARK_HOME']}" in variables and "planted" not in variables


def test_a_problem_with_the_archive_does_not_fail_the_task(worker):
    broken = launch(worker, JAVA_HOME="/nowhere")
    assert archive_options(broken, "") is None
    make_archive_later(broken)
    (open_private_folder() / "spark-classes.log").mkdir()
    make_archive_later(launch(worker))


@pytest.mark.slow
def test_the_operator_makes_an_archive_after_a_successful_job_and_passes_its_options_to_later_jobs(
    table, spark_submit, context, monkeypatch, worker
):
    for name in ("JAVA_HOME", "SPARK_HOME", "TMPDIR"):
        monkeypatch.setenv(name, worker.environ[name])

    def run(options: str) -> None:
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", options)
        task = DeltaWriteOperator(task_id="load", table=str(table), source={"format": "csv", "path": "/in"})
        task.execute(context)

    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(Exception, match="Error code is: 1"):
        run(USER_OPTIONS)
    assert not (private_folder_path() / "spark-classes.log").exists()
    spark_submit.set_script(PRINT_RESULT)
    run(USER_OPTIONS)
    # The operator starts `deltalite warm-up`. It fails, because this stand-in for spark-submit writes no archive.
    wait_until(lambda: has_failed(worker))
    archive = make_archive(worker.program, worker.environ).path
    run(USER_OPTIONS)
    assert spark_submit.env["SPARK_SUBMIT_OPTS"].endswith(f"={archive} -Xlog:cds*=off {USER_OPTIONS}")
    run("-Dx.password=planted")
    assert spark_submit.env["SPARK_SUBMIT_OPTS"].startswith("@/")
