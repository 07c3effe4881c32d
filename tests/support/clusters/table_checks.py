"""Checks of a table whose writer lost executors or ran tasks twice."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from deltalite.cli.main import main
from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.support.tables import actions_of, rows, sorted_rows

_TASK_NUMBER_PATTERN = re.compile(r"part-(\d+)-")


def check_table(table: Path, expected_rows: Iterable[tuple[Any, ...]]) -> None:
    """Check that a table has exactly these rows, and that its log and its files agree."""
    assert rows(table) == sorted_rows(expected_rows)
    assert verify(LocalLogStore(str(table))).findings == ()


def written_task_numbers(table: Path, version: int) -> list[int]:
    """The numbers of the Spark tasks that wrote the files of a commit, sorted. A task with two files occurs twice."""
    names = [add["path"].rpartition("/")[2] for add in actions_of(table, version)["add"]]
    return sorted(int(match[1]) for match in map(_TASK_NUMBER_PATTERN.match, names) if match)


def files_without_commit(table: Path) -> set[str]:
    """The names of the files in the table's folder that no commit adds. Hadoop's checksum files are left out."""
    versions = range(len(list((table / "_delta_log").glob("*.json"))))
    added_names = {unquote(add["path"]) for version in versions for add in actions_of(table, version)["add"]}
    names = {str(file.relative_to(table)) for file in table.rglob("[!.]*") if file.is_file()}
    return {name for name in names - added_names if not name.startswith("_delta_log/")}


def files_that_a_vacuum_deletes(table: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The names of the files that a vacuum with a retention of 0 hours would delete, once all files are old."""
    for entry in table.rglob("*"):
        os.utime(entry, (0, 0))
    capsys.readouterr()
    retention = ["--retention-hours", "0", "--confirm-short-retention", table.name]
    assert main(["vacuum", str(table), "--dry-run", *retention, "--json"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    return {line["path"] for line in lines if "path" in line}
