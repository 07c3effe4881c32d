"""The job of `DeltaMergeOperator`: `spark-submit merge.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("merge", "deltalite.commands.merge:merge", "deltalite.requests:MergeRequest", sys.argv[1:]))
