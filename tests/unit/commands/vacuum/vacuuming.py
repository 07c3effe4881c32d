"""Vacuums of a table with a history of a test, at a time of that history."""

from __future__ import annotations

import os

from deltalite.commands.vacuum import vacuum
from deltalite.requests import VacuumRequest

WEEK_H = 7 * 24
OLD_H = WEEK_H + 1


def run(history, **options):
    """A vacuum at the history's time; its commits carry that time."""
    result = vacuum(None, VacuumRequest(table=str(history.folder), **options), clock_ms=lambda: history.now_ms)
    history.record_library_commits()
    return result


def short(hours):
    return {"retention_hours": hours, "confirm_short_retention": "orders"}


def gone(history, **options):
    """Run a vacuum; returns the files that it deleted."""
    before = history.files()
    run(history, **options)
    return before - history.files()


def write_file(history, name, *, age_hours=OLD_H, content=b"x"):
    """Write a file of any kind with this age."""
    file = history.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    then = history.now_ms / 1000 - age_hours * 3600
    os.utime(file, (then, then))
    return name


def named(history, path, **more):
    """Commit an `add` with this path."""
    body = {"path": path, "partitionValues": {"day": "x"}, "size": 1, "modificationTime": 1, "dataChange": True}
    history._commit([{"add": body | more}], history.live)


def age_folders(history, hours=OLD_H):
    then = history.now_ms / 1000 - hours * 3600
    for folder, _, _ in os.walk(history.folder):
        os.utime(folder, (then, then))
