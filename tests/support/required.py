"""A function for tests that need software which `make setup` does not install."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(problem: str) -> NoReturn:
    """Skip a test that cannot run on this machine. Fail it instead if `DELTALITE_REQUIRE_ALL=1` is set."""
    if os.environ.get("DELTALITE_REQUIRE_ALL") == "1":
        pytest.fail(problem)
    pytest.skip(problem)
