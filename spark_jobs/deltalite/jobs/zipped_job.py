"""Runs a job from the packed library: `spark-submit zipped_job.py JOB REQUEST_FILE`.

The pod of a driver in Kubernetes mounts this script and the library in one folder. The library is a zip file without
compression in a gzip file. Python cannot import from a gzip file, so the script unpacks it into a temporary folder.
"""

from __future__ import annotations

import atexit
import gzip
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    (packed,) = Path(__file__).parent.glob("deltalite-*.zip.gz")
    folder = Path(tempfile.mkdtemp(prefix="deltalite-library-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / packed.stem
    library.write_bytes(gzip.decompress(packed.read_bytes()))
    sys.path.insert(0, str(library))
    job = sys.argv.pop(1)
    runpy.run_module(f"deltalite.jobs.{job}", run_name="__main__", alter_sys=True)
