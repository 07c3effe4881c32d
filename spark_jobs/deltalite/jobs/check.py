"""The job of `DeltaCheckOperator`: `spark-submit check.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.check:check", "deltalite.requests:CheckRequest"
    sys.exit(start_job("check", command_path, request_path, sys.argv[1:]))
