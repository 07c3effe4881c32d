"""The job of `DeltaRestoreOperator`: `spark-submit restore.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.restore import restore
from deltalite.jobs.runner import run
from deltalite.requests import RestoreRequest

if __name__ == "__main__":
    sys.exit(run("restore", RestoreRequest.from_json, restore, sys.argv[1:]))
