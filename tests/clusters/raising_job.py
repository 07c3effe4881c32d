"""A `write.py` that raises the error class which the query of its request names."""

from __future__ import annotations

import sys
from typing import NoReturn

from deltalite import errors
from deltalite.jobs.runner import run
from deltalite.requests import WriteRequest

PROBLEM, REMEDY = "The planted problem.", "The planted remedy."


def fail(_spark: object, request: WriteRequest) -> NoReturn:
    """Raise the error."""
    raise getattr(errors, str(request.query))(PROBLEM, remedy=REMEDY)


if __name__ == "__main__":
    sys.exit(run("write", WriteRequest.from_json, fail, sys.argv[1:]))
