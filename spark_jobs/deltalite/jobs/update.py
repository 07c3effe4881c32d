"""The job of `DeltaUpdateOperator`: `spark-submit update.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.update import update
from deltalite.jobs.runner import run
from deltalite.requests import UpdateRequest

if __name__ == "__main__":
    sys.exit(run("update", UpdateRequest.from_json, update, sys.argv[1:]))
