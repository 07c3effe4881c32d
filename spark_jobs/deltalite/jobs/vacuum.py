"""The job of `DeltaVacuumOperator`: `spark-submit vacuum.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.vacuum import vacuum
from deltalite.jobs.runner import run
from deltalite.requests import VacuumRequest

if __name__ == "__main__":
    sys.exit(run("vacuum", VacuumRequest.from_json, vacuum, sys.argv[1:]))
