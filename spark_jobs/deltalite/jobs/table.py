"""The job of `DeltaTableOperator`: `spark-submit table.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command, request = "deltalite.commands.table:define_table", "deltalite.requests:TableRequest"
    sys.exit(start_job("table", command, request, sys.argv[1:]))
