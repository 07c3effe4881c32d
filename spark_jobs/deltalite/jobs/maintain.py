"""The job of `DeltaLakeMaintenanceOperator`: `spark-submit maintain.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.maintain:maintain", "deltalite.requests:MaintainRequest"
    sys.exit(start_job("maintain", command_path, request_path, sys.argv[1:]))
