"""Sizes have the largest unit in which they are at least one."""

from __future__ import annotations

import pytest

from deltalite.sizes import format_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(None, "?"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 19, "1.5 MiB"), (1 << 52, "4096.0 TiB")],
)
def test_a_size_has_the_largest_unit_that_fits(size_bytes, text):
    assert format_bytes(size_bytes) == text
