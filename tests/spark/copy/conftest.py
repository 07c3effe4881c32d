"""Paths for the folder, the table and the quarantine of a copy. None of them exists yet."""

from __future__ import annotations

import pytest


@pytest.fixture
def landing(tmp_path):
    return tmp_path / "landing"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "orders"


@pytest.fixture
def quarantine(tmp_path):
    return tmp_path / "quarantine"
