"""The job of `DeltaDeleteOperator`: `spark-submit delete.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.delete import delete
from deltalite.jobs.runner import run
from deltalite.requests import DeleteRequest

if __name__ == "__main__":
    sys.exit(run("delete", DeleteRequest.from_json, delete, sys.argv[1:]))
