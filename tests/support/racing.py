"""Rivals that commit between the plan of a command and its commit, on a local table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltalite.protocol.file_names import LogFileKind, parse_log_name
from deltalite.storage.local import LocalLogStore


def run_before_commits(monkeypatch: pytest.MonkeyPatch, *rivals: Callable[[], object]) -> None:
    """Run a rival right before each of the next commits, in order; later commits have none.

    A rival may commit to the same table: its commits have no rival. If a rival raises, the commit that it precedes
    fails with its error.
    """
    original = LocalLogStore.write_if_absent
    waiting_rivals = list(rivals)

    def write_after_rival(store: LocalLogStore, name: str, data: bytes) -> bool:
        log_name = parse_log_name(name)
        if waiting_rivals and log_name is not None and log_name.kind is LogFileKind.COMMIT:
            rival = waiting_rivals.pop(0)
            monkeypatch.setattr(LocalLogStore, "write_if_absent", original)
            try:
                rival()
            finally:
                monkeypatch.setattr(LocalLogStore, "write_if_absent", write_after_rival)
        return original(store, name, data)

    monkeypatch.setattr(LocalLogStore, "write_if_absent", write_after_rival)
