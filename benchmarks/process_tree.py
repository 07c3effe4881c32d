"""The processes that a process has started, from `/proc`."""

from __future__ import annotations

from pathlib import Path


def process_tree(root_pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    pids = [root_pid]
    for pid in pids:  # the loop also visits the ids that it appends
        try:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                pids += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return pids
