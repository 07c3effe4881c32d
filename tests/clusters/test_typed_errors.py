"""Errors of a driver in a real cluster: the task raises the exception of the error's class, and logs the traceback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_deltalite.failures import DeltaStorageError
from airflow_provider_deltalite.operators.delta import DeltaMergeOperator, DeltaTableOperator, DeltaWriteOperator
from tests.clusters.conftest import EACH_MODE, MODES, UNLISTED_MODES
from tests.clusters.slow_jobs import create_table, source_of
from tests.support.selection import sampled


def unknown_column(mode):
    load = mode.parameters("load", "orders")
    return DeltaWriteOperator(**load, source=source_of(mode, "first", [1]), query="SELECT missing FROM source")


def missing_source(mode):
    source = {"format": "csv", "path": f"file://{mode.folder}/missing.csv", "schema": "id INT, kind STRING"}
    return DeltaWriteOperator(**mode.parameters("load", "orders"), source=source)


def row_that_an_executor_cannot_compute(mode):
    load = mode.parameters("load", "orders")
    query = "SELECT id, CAST(kind AS INT) AS number FROM source"
    return DeltaWriteOperator(**load, source=source_of(mode, "first", [1]), query=query)


def violated_constraint(mode):
    load = mode.parameters("load", "orders", properties={"delta.constraints.positive": "id > 0"})
    return DeltaWriteOperator(**load, source=source_of(mode, "first", [1, -1]))


def ambiguous_merge(mode):
    create_table(mode, range(4))
    upsert = mode.parameters("upsert", "orders", on="target.id = source.id", when_matched=[{"update": "*"}])
    query = "SELECT id, concat(kind, number) AS kind FROM source CROSS JOIN (SELECT explode(array(1, 2)) AS number)"
    return DeltaMergeOperator(**upsert, source=source_of(mode, "second", [1]), query=query)


PERMANENT_ERRORS = {
    "InvalidRequestError": unknown_column,
    "SourceError": row_that_an_executor_cannot_compute,
    "ConstraintViolationError": violated_constraint,
    "MultipleMatchesError": ambiguous_merge,
}


@pytest.mark.sample("yarn-cluster")
@EACH_MODE
@pytest.mark.parametrize("error_class", sampled(list(PERMANENT_ERRORS), ["InvalidRequestError"]))
def test_a_permanent_error_of_the_driver_is_typed_logged_with_its_traceback_and_not_repeated(mode, error_class, capsys):
    earlier_jobs = mode.applications().keys()
    operator = PERMANENT_ERRORS[error_class](mode)
    earlier_commits = mode.commit_files("orders")
    with pytest.raises(AirflowFailException, match=f"^{error_class}: "):
        mode.run(operator)
    log = capsys.readouterr().out
    assert "Traceback of the job" in log and f"deltalite.errors.{error_class}" in log
    assert mode.commit_files("orders") == earlier_commits
    assert log.count("Identified spark application id") <= 1
    submitted_jobs = mode.applications().keys() - earlier_jobs
    assert len(submitted_jobs) == (mode.name not in UNLISTED_MODES)
    if mode.yarn is not None:
        driver_log_addresses = [
            application["amContainerLogs"]
            for application in mode.yarn.applications()
            if application["id"] in submitted_jobs
        ]
        # The address of the log contains the number of YARN's attempt, 01.
        assert all("_01_000001/" in address for address in driver_log_addresses)


@pytest.mark.campaign
@EACH_MODE
def test_a_missing_source_fails_an_attempt_that_airflow_retries(mode, capsys):
    with pytest.raises(AirflowException, match=r"(?s)^SourceNotFoundError: .*missing\.csv") as caught:
        mode.run(missing_source(mode))
    assert not isinstance(caught.value, AirflowFailException)
    log = capsys.readouterr().out
    assert "Traceback of the job" in log and "deltalite.errors.SourceNotFoundError" in log
    assert mode.commit_files("orders") == []


@pytest.mark.campaign
@EACH_MODE
def test_full_storage_fails_an_attempt_that_airflow_retries(mode, capsys):
    with full_folder(mode, "orders"):
        create = DeltaTableOperator(**mode.parameters("create", "orders"), schema="id INT, kind STRING")
        with pytest.raises(DeltaStorageError, match=r"^StorageError: "):
            mode.run(create)
        log = capsys.readouterr().out
        assert "Traceback of the job" in log and "deltalite.errors.StorageError" in log
        load = DeltaWriteOperator(**mode.parameters("load", "orders"), source=source_of(mode, "first", range(100)))
        reason = "(No space left on device|quota .* is exceeded)"
        with pytest.raises(DeltaStorageError, match=rf"(?s)^StorageError: .*{reason}"):
            mode.run(load)
        log = capsys.readouterr().out
        assert "Traceback of the job" in log and "deltalite.errors.StorageError" in log
        assert mode.commit_files("orders") == []


# The driver of the other modes may write every local folder.
@pytest.mark.campaign
@pytest.mark.parametrize("mode", [name for name in MODES if name not in UNLISTED_MODES], indirect=True)
def test_a_folder_that_the_driver_may_not_change_is_a_permanent_error(mode, capsys):
    create_table(mode, range(4))
    if mode.yarn is not None:
        mode.cluster_variables["HADOOP_USER_NAME"] = "guest"
        mode.yarn.create_folder("/user/guest", permission="777")  # for the files of the job
    else:
        for folder in (mode.local_table("orders"), mode.local_table("orders") / "_delta_log"):
            folder.chmod(0o555)
    with pytest.raises(AirflowFailException, match=r"^StoragePermissionError: "):
        mode.run(DeltaWriteOperator(**mode.parameters("load", "orders"), source=source_of(mode, "new", [5])))
    log = capsys.readouterr().out
    assert "Traceback of the job" in log and "deltalite.errors.StoragePermissionError" in log
    assert mode.commit_files("orders") == ["00000000000000000000.json"]


@contextmanager
def full_folder(mode, table: str) -> Iterator[None]:
    """Let the storage of a table be full: by a quota of HDFS, or by a mounted disk without space."""
    if mode.yarn is not None:
        folder_in_hdfs = f"{mode.lake.removeprefix(mode.yarn.hdfs)}/{table}"
        mode.yarn.create_folder(folder_in_hdfs)
        mode.yarn.forbid_growth(folder_in_hdfs)
        yield
        return
    folder = mode.folder / "lake" / table
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=777", "tmpfs", str(folder)], check=True)
    try:
        (folder / "_full").write_bytes(os.urandom(4096))
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)
