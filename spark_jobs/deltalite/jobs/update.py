"""The job of `DeltaUpdateOperator`: `spark-submit update.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("update", "deltalite.commands.update:update", "deltalite.requests:UpdateRequest", sys.argv[1:]))
