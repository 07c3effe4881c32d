"""The job of `DeltaMergeOperator`: `spark-submit merge.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.merge import merge
from deltalite.jobs.runner import run
from deltalite.requests import MergeRequest

if __name__ == "__main__":
    sys.exit(run("merge", MergeRequest.from_json, merge, sys.argv[1:]))
