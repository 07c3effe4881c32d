"""A task that writes, and Python programs that a stand-in for spark-submit runs instead of the task's job."""

from __future__ import annotations

import json

from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

APP_ID = "airflow/sales/load/-1/scheduled__2026-01-01T00:00:00+00:00"

# Each of these texts is a program. Tests fill the braces of PRINT_ERROR and COPY_REQUEST with `format`.
PRINT_RESULT = f"""
from deltalite.markers import result_marker
from deltalite.results import OperationResult
print("26/01/01 00:00:00 WARN SparkContext: Running")
print(result_marker(OperationResult(
    table="/t", operation="WRITE", version=4, read_version=3, committed=True, skipped=False,
    app_id={APP_ID!r}, txn_version=0, timestamp=5, metrics={{"numOutputRows": 2}},
)))
"""
PRINT_ERROR = """
from deltalite.markers import error_marker
print(error_marker({kind!r}, "column x does not exist"))
sys.exit({code})
"""
COPY_REQUEST = "import shutil; shutil.copy(sys.argv[-1], {copy!r})\n"


def operator(table, **parameters) -> DeltaWriteOperator:
    """The task `load`, which appends a CSV file to the table; `parameters` replace or extend the defaults."""
    defaults = {"task_id": "load", "table": str(table), "source": {"format": "csv", "path": "/in"}, "retries": 2}
    return DeltaWriteOperator(**{**defaults, **parameters})


def commit_as_driver(table, version=1, txn=0) -> None:
    """Make the commit that the driver of the task makes in a cluster. `txn` is the version of its transaction."""
    table.commit(version, table.txn(APP_ID, txn), table.add())


def job_that_commits(table, *, exit_code=0, version=1) -> str:
    """A program that commits `version` in the name of the task's run, prints no result, and exits."""
    folder = table.root / "_delta_log"
    actions = [
        {"commitInfo": {"timestamp": 9, "operation": "WRITE", "operationMetrics": {"numFiles": "1"}, "readVersion": 0}},
        table.txn(APP_ID),
        table.add(),
    ]
    text = "\n".join(json.dumps(action) for action in actions)
    return f"open({str(folder / f'{version:020}.json')!r}, 'w').write({text!r})\nsys.exit({exit_code})"
