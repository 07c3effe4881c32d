"""The job of `DeltaDeleteOperator`: `spark-submit delete.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("delete", "deltalite.commands.delete:delete", "deltalite.requests:DeleteRequest", sys.argv[1:]))
