"""The job of `DeltaCopyOperator`: `spark-submit copy_files.py REQUEST_FILE`.

Spark puts the folder of a script first on the module path, so a script `copy.py` would hide Python's module `copy`.
"""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    sys.exit(start_job("copy", "deltalite.commands.copy:copy", "deltalite.requests:CopyRequest", sys.argv[1:]))
