"""The job of `DeltaConvertOperator`: `spark-submit convert.py REQUEST_FILE`."""

from __future__ import annotations

import sys

from deltalite.commands.convert import convert
from deltalite.jobs.runner import run
from deltalite.requests import ConvertRequest

if __name__ == "__main__":
    sys.exit(run("convert", ConvertRequest.from_json, convert, sys.argv[1:]))
