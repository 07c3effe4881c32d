"""The job of `DeltaOptimizeOperator`: `spark-submit optimize.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.optimize:optimize", "deltalite.requests:OptimizeRequest"
    sys.exit(start_job("optimize", command_path, request_path, sys.argv[1:]))
