"""Stand-ins for Airflow's questions to people, and for a job with an audit of level `ask`.

The job measures the number in a file. With an approval of at least this number it commits, as the real job does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

try:
    from airflow.sdk.exceptions import TaskAwaitingInput
except ImportError:  # before Airflow 3.3
    TaskAwaitingInput = TaskDeferred

WAITS = (TaskAwaitingInput, TaskDeferred)
ANSWERED_AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
JOB = """
import json
from dataclasses import replace
from pathlib import Path
from deltalite.markers import error_marker, question_markers, result_markers
from deltalite.requests import AuditScope, DeleteRequest, WriteRequest
from deltalite.requests.approvals import request_parts
from deltalite.results import OperationResult
from deltalite.txn.approvals import is_undecided, question_of, with_acceptance
from deltalite.txn.audits import AUDITS, Measurement, audit_result, audits_parameter

text = open(request_files[0]).read()
kind = {{"write": WriteRequest, "delete": DeleteRequest}}[json.loads(text)["kind"]]
request = kind.from_json(text)
(audit,) = request.audits
count = Path({runs!r}).read_text().count("x") if Path({runs!r}).exists() else 0
Path({runs!r}).write_text("x" * (count + 1))
measurement = Measurement(value=int(Path({bad_rows!r}).read_text()), rows=9)
result = audit_result(audit, AuditScope.NEW_ROWS, measurement, now_ms=1)
(result,) = with_acceptance([result], {{audit.name: audit}}, request.approval, now_ms=1)
if is_undecided(result):
    samples = {{audit.name: ['{{"customer": null, "note": "```\\\\n# x"}}']}}
    question = question_of(
        [result], {{audit.name: audit}}, effect="Rows in /f.", samples=samples, now_ms=1, approval=request.approval
    )
    question = replace(question, request=request_parts(request.table, request.identity, request.audits))
    for marker in question_markers(question):
        print(marker)
    print(error_marker("ApprovalNeededError", "A person decides", remedy="Answer"))
    sys.exit(110)
identity = request.identity
log = Path(request.table) / "_delta_log"
actions = [
    {{"commitInfo": {{"timestamp": 9, "operation": "WRITE", "operationMetrics": {{}}, "readVersion": 0,
     "operationParameters": {{AUDITS: audits_parameter([result])}}}}}},
    {{"txn": {{"appId": identity.app_id, "version": identity.txn_version, "lastUpdated": 9}}}},
]
(log / "00000000000000000001.json").write_text("\\n".join(map(json.dumps, actions)))
if Path({killed!r}).exists():
    sys.exit(137)
print(*result_markers(OperationResult(
    table=request.table, operation="WRITE", version=1, read_version=0, committed=True, skipped=False,
    app_id=identity.app_id, txn_version=identity.txn_version, timestamp=9, audits=(result,),
)))
"""


@dataclass
class AskingJob:
    """The job. Its files are in `folder`."""

    folder: Path

    @property
    def program(self) -> str:
        """The code that a stand-in for `spark-submit` runs."""
        files = {name: str(self.folder / name) for name in ("runs", "bad_rows", "killed")}
        return JOB.format(**files)

    @property
    def runs(self) -> int:
        """The number of runs of the job."""
        file = self.folder / "runs"
        return len(file.read_text()) if file.exists() else 0

    def set_bad_rows(self, number: int) -> None:
        """Set the number of bad rows that the audit measures."""
        (self.folder / "bad_rows").write_text(str(number))

    def kill_after_commit(self) -> None:
        """Let the next run of the job end with exit code 137 after its commit."""
        (self.folder / "killed").write_text("")


@dataclass(frozen=True)
class Wait:
    """A task that waits: the method and the arguments with which Airflow resumes it."""

    method_name: str
    kwargs: dict
    timeout: object
    trigger: object = None


def wait_of(run) -> Wait:
    """Call a function that runs a task until it waits for a person or for its driver. Returns the wait."""
    with pytest.raises(WAITS) as caught:
        run()
    kwargs = json.loads(json.dumps(caught.value.kwargs))
    return Wait(caught.value.method_name, kwargs, caught.value.timeout, getattr(caught.value, "trigger", None))


def code_in(question) -> str:
    """The code of a question, which the form of the answer must repeat."""
    return question["params"]["code"]["value"]


def answer(*options, code=None, user="Ada", params=True) -> dict:
    """The event with which Airflow resumes a task after an answer. The form has the code, unless `params` is False."""
    return {
        "chosen_options": list(options),
        "params_input": {} if not params else {"code": code},
        "responded_at": ANSWERED_AT,
        "responded_by_user": None if user is None else {"id": "7", "name": user},
        "timedout": user is None,
    }
