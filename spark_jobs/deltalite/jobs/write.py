"""The job of `DeltaWriteOperator`: `spark-submit write.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.write import write
from deltalite.jobs.runner import run
from deltalite.requests import WriteRequest

if __name__ == "__main__":
    sys.exit(run("write", WriteRequest.from_json, write, sys.argv[1:]))
