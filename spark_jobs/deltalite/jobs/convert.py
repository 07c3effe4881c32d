"""The job of `DeltaConvertOperator`: `spark-submit convert.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command, request = "deltalite.commands.convert:convert", "deltalite.requests:ConvertRequest"
    sys.exit(start_job("convert", command, request, sys.argv[1:]))
