"""The job of `DeltaConvertOperator`: `spark-submit convert.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.jobs.starting import start_job

if __name__ == "__main__":
    command_path, request_path = "deltalite.commands.convert:convert", "deltalite.requests:ConvertRequest"
    sys.exit(start_job("convert", command_path, request_path, sys.argv[1:]))
