"""The retry policy under a real scheduler: whether a task is retried, and after which delay."""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.campaign]

# Exits with CODE at the first call, and succeeds at later calls.
STAND_IN = f"""\
#!{sys.executable}
import os, sys
from deltalite.markers import error_marker, nonce_of, result_marker
from deltalite.results import OperationResult
nonce = nonce_of(open(sys.argv[-1]).read())
if not os.path.exists(os.environ["TRIED"]):
    open(os.environ["TRIED"], "w").close()
    print(error_marker(os.environ["KIND"], "reported by the job", nonce=nonce), flush=True)
    sys.exit(int(os.environ["CODE"]))
print(result_marker(OperationResult(table="/t", operation="WRITE", version=1, read_version=0, committed=True,
    skipped=False, app_id="a", txn_version=0, timestamp=5), nonce))
"""
ERRORS = {
    "conflict": ("ConcurrentAppendException", 84),
    "storage": ("StorageError", 70),
    "other": ("AnalysisException", 1),
    "refused": ("ConstraintViolationError", 52),
    "unknown": ("CommitStateUnknownError", 90),
}
DAG = """
from datetime import timedelta
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from airflow_provider_deltalite.retries import delta_retry_policy

no_delay = timedelta(0)
with DAG("policy", schedule=None, default_args={{
    "retries": 2,
    "retry_delay": timedelta(hours=5),
    "retry_policy": delta_retry_policy(conflict_delay=no_delay, storage_delay=no_delay),
}}):
    for name, (kind, code) in {errors}.items():
        DeltaWriteOperator(
            task_id=name, table={lake!r} + "/policy", source={{"format": "csv", "path": "/in"}},
            spark_binary={program!r},
            env_vars={{"KIND": kind, "CODE": str(code), "TRIED": {lake!r} + "/tried-" + name}},
        )
    DeltaWriteOperator(task_id="invalid", table="/t", source={{"format": "csv", "path": "/in"}}, mode="{{{{ 'x' }}}}")
"""


def test_conflicts_and_storage_errors_are_retried_at_once_and_permanent_errors_are_not_retried(whole_airflow, tmp_path):
    program = tmp_path / "stand-in"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    whole_airflow.add_dag("policy", DAG.format(errors=ERRORS, lake=str(tmp_path), program=str(program)))
    run_id = whole_airflow.trigger("policy")
    expected_states = {
        "conflict": "success",
        "storage": "success",
        "other": "up_for_retry",  # The task waits for its own `retry_delay` of five hours.
        "refused": "failed",
        "unknown": "failed",
        "invalid": "failed",
    }
    for name, state in expected_states.items():
        whole_airflow.wait_for_task("policy", run_id, name, state)
    try_numbers = {name: whole_airflow.task("policy", run_id, name)["try_number"] for name in expected_states}
    assert try_numbers == {"conflict": 2, "storage": 2, "other": 1, "refused": 1, "unknown": 1, "invalid": 1}
    assert "ConcurrentAppendException: reported by the job" in whole_airflow.task_log("policy", run_id, "conflict")
