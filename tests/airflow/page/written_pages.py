"""The text of a page, and commits that tests write without the library."""

from __future__ import annotations

import json
import re

from deltalite.protocol.file_names import commit_name

RUN = "manual__1"
"""The run in the user metadata of a task's commit."""


def words(html: str) -> str:
    """The text of a page without markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<main")[2]))


def write_commit(root, version, *actions, **info) -> None:
    """Write the commit file of a version. `info` has the fields of its commit info."""
    lines = [{"commitInfo": {"timestamp": 1, **info}}, *actions]
    (root / commit_name(version)).write_text("".join(json.dumps(line) + "\n" for line in lines))
