"""Shared fixtures of the tests of convert."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "orders"
