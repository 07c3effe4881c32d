"""The job of `DeltaGenerateManifestOperator`: `spark-submit generate_manifest.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = (
        "deltalite.commands.generate_manifest:generate_manifest",
        "deltalite.requests:GenerateManifestRequest",
    )
    sys.exit(start_job("generate_manifest", command_path, request_path, sys.argv[1:]))
