"""The job of `DeltaVacuumOperator`: `spark-submit vacuum.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("vacuum", "deltalite.commands.vacuum:vacuum", "deltalite.requests:VacuumRequest", sys.argv[1:]))
