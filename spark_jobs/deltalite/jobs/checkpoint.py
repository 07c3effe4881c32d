"""The job of `DeltaCheckpointOperator`: `spark-submit checkpoint.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.checkpoint:checkpoint", "deltalite.requests:CheckpointRequest"
    sys.exit(start_job("checkpoint", command_path, request_path, sys.argv[1:]))
