"""Rivals: functions that commit to a local table between the plan of a command and its commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltalite.protocol.file_names import LogFileKind, parse_log_name
from deltalite.storage.local import LocalLogStore


def run_before_commits(monkeypatch: pytest.MonkeyPatch, *rivals: Callable[[], object]) -> None:
    """Run the first rival right before the next commit, the second before the commit after it, and so on.

    A rival may commit to the same table. No rival runs before the commits of a rival. If a rival raises an error, the
    commit that waits for it fails with this error.
    """
    write_if_absent = LocalLogStore.write_if_absent
    waiting_rivals = list(rivals)

    def write_after_rival(store: LocalLogStore, name: str, data: bytes) -> bool:
        log_name = parse_log_name(name)
        if waiting_rivals and log_name is not None and log_name.kind is LogFileKind.COMMIT:
            rival = waiting_rivals.pop(0)
            monkeypatch.setattr(LocalLogStore, "write_if_absent", write_if_absent)
            try:
                rival()
            finally:
                monkeypatch.setattr(LocalLogStore, "write_if_absent", write_after_rival)
        return write_if_absent(store, name, data)

    monkeypatch.setattr(LocalLogStore, "write_if_absent", write_after_rival)
