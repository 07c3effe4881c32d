"""The job of `DeltaWriteOperator`: `spark-submit write.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("write", "deltalite.commands.write:write", "deltalite.requests:WriteRequest", sys.argv[1:]))
