"""The job of `DeltaGenerateManifestOperator`: `spark-submit generate_manifest.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.generate_manifest import generate_manifest
from deltalite.jobs.runner import run
from deltalite.requests import GenerateManifestRequest

if __name__ == "__main__":
    sys.exit(run("generate_manifest", GenerateManifestRequest.from_json, generate_manifest, sys.argv[1:]))
