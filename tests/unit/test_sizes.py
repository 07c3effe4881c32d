"""Sizes have the largest unit in which they are at least one. Counts have a noun in singular or plural."""

from __future__ import annotations

import pytest

from deltalite.sizes import counted, format_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(None, "?"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 19, "1.5 MiB"), (1 << 52, "4096.0 TiB")],
)
def test_a_size_has_the_largest_unit_that_fits(size_bytes, text):
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (11, "11 files"), (1.5, "1.5 files")]
)
def test_a_noun_is_in_plural_unless_the_count_is_one(count, text):
    assert counted(count, "file") == text
