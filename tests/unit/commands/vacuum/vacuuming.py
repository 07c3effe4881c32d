"""Helpers that vacuum the table of a `TableHistory` at the current time of the history."""

from __future__ import annotations

import os

from deltalite.commands.vacuum import vacuum
from deltalite.requests import VacuumRequest

WEEK_H = 7 * 24
OLD_H = WEEK_H + 1


def run_vacuum(history, **options):
    """Vacuum the table at the current time of the history. Returns the result."""
    result = vacuum(None, VacuumRequest(table=str(history.folder), **options), clock_ms=lambda: history.now_ms)
    history.record_library_commits()
    return result


def confirmed_retention(hours):
    """The options of a vacuum with a retention that may be shorter than the retention of the table."""
    return {"retention_hours": hours, "confirm_short_retention": "orders"}


def vacuum_and_list_deleted(history, **options):
    """Vacuum the table; returns the names of the deleted files."""
    before = history.files()
    run_vacuum(history, **options)
    return before - history.files()


def write_file(history, name, *, age_hours=OLD_H, content=b"x"):
    """Write a file of any kind with this age."""
    file = history.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    modified_s = history.now_ms / 1000 - age_hours * 3600
    os.utime(file, (modified_s, modified_s))
    return name


def commit_add(history, path, **fields):
    """Commit an `add` with this path."""
    body = {"path": path, "partitionValues": {"day": "x"}, "size": 1, "modificationTime": 1, "dataChange": True}
    history._commit([{"add": body | fields}], history.live)


def age_folders(history, hours=OLD_H):
    """Set the modification times of all folders of the table to this age."""
    modified_s = history.now_ms / 1000 - hours * 3600
    for folder, _, _ in os.walk(history.folder):
        os.utime(folder, (modified_s, modified_s))
