"""The job of `DeltaOptimizeOperator`: `spark-submit optimize.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.optimize import optimize
from deltalite.jobs.runner import run
from deltalite.requests import OptimizeRequest

if __name__ == "__main__":
    sys.exit(run("optimize", OptimizeRequest.from_json, optimize, sys.argv[1:]))
