"""The exit codes of the command line and their meanings, which `--help` and the documentation show."""

from __future__ import annotations

import signal

from deltalite.errors import DeltaLiteError

UNEXPECTED = 1
WRONG_USAGE = 2
FOUND_ERRORS = 3
"""The exit code of `verify`, `doctor` and `health` if they found errors; no error class has this code."""
INTERRUPTED = 128 + signal.SIGINT
BROKEN_PIPE = 128 + signal.SIGPIPE

EXIT_CODES: tuple[tuple[str, str], ...] = (
    ("0", "done; for verify, doctor and health: no errors, at most warnings"),
    (str(UNEXPECTED), "a bug in deltalite; DELTALITE_TRACEBACK=1 shows the traceback"),
    (str(WRONG_USAGE), "wrong usage"),
    (str(FOUND_ERRORS), "verify, doctor or health found errors"),
    (f"{DeltaLiteError.exit_code} and up", "the class of the error, listed on the page Troubleshooting"),
    (str(INTERRUPTED), "interrupted"),
    (str(BROKEN_PIPE), "the reader of the output closed the pipe"),
)
