"""The job of `DeltaScdOperator`: `spark-submit scd.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("scd", "deltalite.commands.scd:scd", "deltalite.requests:ScdRequest", sys.argv[1:]))
