"""Shared fixtures of the tests of the maintenance that need no Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deltalite.commands.maintain import one_table


@pytest.fixture
def spark(monkeypatch):
    """A stand-in for a session. Tables with an address that begins with `file://` need no real session."""
    monkeypatch.setattr(one_table, "isolated_session", lambda session: session)
    return SimpleNamespace(sparkContext=SimpleNamespace(setJobDescription=lambda text: None))
