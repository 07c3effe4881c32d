"""The job of `DeltaRestoreOperator`: `spark-submit restore.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.restore:restore", "deltalite.requests:RestoreRequest"
    sys.exit(start_job("restore", command_path, request_path, sys.argv[1:]))
