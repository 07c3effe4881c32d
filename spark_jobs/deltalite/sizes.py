"""Sizes and counts as text for people."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_BYTES_PER_KIB = 1024


def counted(count: object, noun: str) -> str:
    """Format a number with a noun, such as `1 file` or `2 files`."""
    return f"{count} {noun}{'' if str(count) == '1' else 's'}"


def format_bytes(size_bytes: int | None) -> str:
    """Format a number of bytes, such as `1.5 MiB`. None is an unknown size."""
    if size_bytes is None:
        return "?"
    size, units = float(size_bytes), list(_UNITS)
    while size >= _BYTES_PER_KIB and len(units) > 1:
        size, units = size / _BYTES_PER_KIB, units[1:]
    return f"{size_bytes} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
