"""What tests need of the machine, beyond what the environment brings."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def not_here(problem: str) -> NoReturn:
    """Skip a test that cannot run on this machine; fail it where `DELTALITE_REQUIRE_ALL=1` says that all must run."""
    if os.environ.get("DELTALITE_REQUIRE_ALL") == "1":
        pytest.fail(problem)
    pytest.skip(problem)
