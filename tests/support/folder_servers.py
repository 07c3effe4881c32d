"""Servers that the tests of one folder share, and that stop after the last of these tests.

A server that runs until the end of all tests costs processor time: a whole Airflow polls its database, and the
nodes of a cluster send heartbeats. pytest has no scope for the tests of a folder that is not a package.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

_STACKS = pytest.StashKey[dict[Path, ExitStack]]()


def servers_of(folder: Path, config: pytest.Config) -> ExitStack:
    """Return the stack of the servers for the tests in a folder. A session fixture enters its server into the stack.

    The stack is closed after the last test of the folder, or when pytest ends.
    """
    return config.stash.setdefault(_STACKS, {}).setdefault(folder, ExitStack())


def is_last_in_folder(item: pytest.Item, items: list[pytest.Item]) -> bool:
    """Whether no later item is a test of the same folder."""
    return next(other for other in reversed(items) if other.path.parent == item.path.parent) is item


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Stop the servers of a folder after its last test."""
    try:
        return (yield)
    finally:
        stacks = item.config.stash.get(_STACKS, {})
        if item.path.parent in stacks and is_last_in_folder(item, item.session.items):
            stacks.pop(item.path.parent).close()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers that still run, for example after an interrupt."""
    stacks = config.stash.get(_STACKS, {})
    while stacks:
        stacks.popitem()[1].close()
