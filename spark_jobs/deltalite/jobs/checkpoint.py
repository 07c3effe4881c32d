"""The job of `DeltaCheckpointOperator`: `spark-submit checkpoint.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.checkpoint import checkpoint
from deltalite.jobs.runner import run
from deltalite.requests import CheckpointRequest

if __name__ == "__main__":
    sys.exit(run("checkpoint", CheckpointRequest.from_json, checkpoint, sys.argv[1:]))
