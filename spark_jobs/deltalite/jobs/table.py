"""The job of `DeltaTableOperator`: `spark-submit table.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.table:define_table", "deltalite.requests:TableRequest"
    sys.exit(start_job("table", command_path, request_path, sys.argv[1:]))
