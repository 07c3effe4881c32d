"""Shared fixtures of the tests of commands that need no Spark."""

from __future__ import annotations

import pytest

from tests.support.properties import FEED
from tests.support.table_history import TableHistory


@pytest.fixture
def history(tmp_path) -> TableHistory:
    """A table with a change data feed, whose commits and times the test decides."""
    return TableHistory(tmp_path / "orders", FEED)
