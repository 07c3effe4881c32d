"""Shared fixtures of the tests of vacuum."""

from __future__ import annotations

import pytest

from tests.support.table_history import TableHistory


@pytest.fixture
def history(tmp_path) -> TableHistory:
    return TableHistory(tmp_path / "orders", {"delta.enableChangeDataFeed": "true"})
