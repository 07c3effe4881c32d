"""The job of `DeltaTableOperator`: `spark-submit table.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.table import define_table
from deltalite.jobs.runner import run
from deltalite.requests import TableRequest

if __name__ == "__main__":
    sys.exit(run("table", TableRequest.from_json, define_table, sys.argv[1:]))
