"""Files that only their owner can read."""

from __future__ import annotations

from pathlib import Path


def write_private(path: str, text: str) -> None:
    """Write a file that only its owner can read. An existing file keeps its permissions."""
    file = Path(path)
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
