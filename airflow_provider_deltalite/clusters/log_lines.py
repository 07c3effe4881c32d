"""The lines of a driver's log that a cluster returned."""

from __future__ import annotations

import io

from airflow_provider_deltalite.output import bounded_lines

MAX_BYTES = 2 * 1024 * 1024  # a longer log loses its oldest bytes


class DriverLogError(Exception):
    """The driver's log cannot be read."""


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without line ends. A long line is returned in several parts."""
    whole_lines = text if text.endswith("\n") or not text else text + "\n"
    return [line.rstrip("\n") for line in bounded_lines(io.StringIO(whole_lines, newline=None))]
