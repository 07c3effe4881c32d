"""The error for a source file that cannot be read, whatever its records are."""

from __future__ import annotations

from deltalite.errors import SourceError


class UnreadableFileError(SourceError):
    """One file of a source cannot be read. A copy with a quarantine leaves the file out."""
