"""A stand-in for spark-submit: for each request it commits one row, with the transaction of the run."""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = f"""\
#!{sys.executable}
import sys
sys.path[:0] = [{str(CHECKOUT)!r}, {str(CHECKOUT / "spark_jobs")!r}]
from deltalite.requests import WriteRequest
from tests.faults.programs import write_ids
with open(sys.argv[-1]) as file:
    request = WriteRequest.from_json(file.read())
identity = request.identity
ids = [int(request.user_metadata)]
write_ids(None, request.table, run=identity.app_id, ids=ids, identity=identity)
"""


def write_committing_stand_in(program: Path) -> None:
    """Write an executable that a DAG uses as `spark_binary`. The row's id is the number in `user_metadata`."""
    program.write_text(PROGRAM)
    program.chmod(0o755)


def write_asking_stand_in(program: Path, job: str) -> None:
    """Write an executable that a DAG uses as `spark_binary`. It runs the program `job` of `tests.support.asking`."""
    program.write_text(f"""\
#!{sys.executable}
import sys
sys.path[:0] = [{str(CHECKOUT / "spark_jobs")!r}]
from functools import partial
from deltalite import markers
request_files = [sys.argv[-1]]
nonce = markers.nonce_of(open(sys.argv[-1]).read())
for name in ("result_markers", "question_markers", "error_marker"):
    setattr(markers, name, partial(getattr(markers, name), nonce=nonce))
exec({job!r})
""")
    program.chmod(0o755)
