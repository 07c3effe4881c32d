"""Tests that need more of the machine than `make setup` installs."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def not_here(problem: str) -> NoReturn:
    """Skip a test that cannot run on this machine; fail it if `DELTALITE_REQUIRE_ALL=1` demands all tests."""
    if os.environ.get("DELTALITE_REQUIRE_ALL") == "1":
        pytest.fail(problem)
    pytest.skip(problem)
