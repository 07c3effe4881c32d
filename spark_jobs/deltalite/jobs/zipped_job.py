"""Runs a job from the library's zip file: `spark-submit zipped_job.py JOB REQUEST_FILE`.

The zip file is in the folder of this script. The pod of a driver in Kubernetes mounts both files.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    (library,) = Path(__file__).parent.glob("deltalite-*.zip")
    sys.path.insert(0, str(library))
    job = sys.argv.pop(1)
    runpy.run_module(f"deltalite.jobs.{job}", run_name="__main__", alter_sys=True)
