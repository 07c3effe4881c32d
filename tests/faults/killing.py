"""Kill a program at its steps, run it again as Airflow does, and check the table after both."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from random import Random

import deltalake

from deltalite.errors import TableNotFoundError
from deltalite.protocol.file_names import LAST_CHECKPOINT, LAST_VACUUM, LOG_DIR, parse_log_name
from tests.faults.crash_site import EVERYTHING
from tests.support.tables import delta_rs_rows, rows

_LONG_AGO_S = 60 * 24 * 3600


def rows_or_none(table):
    """The rows of a table; None if the folder has no table."""
    try:
        return rows(table)
    except TableNotFoundError:
        return None


def commits(table):
    log = Path(table) / LOG_DIR
    return sorted(file for file in log.glob("*.json") if len(file.stem) == 20 and file.stem.isdigit())


def check_whole(table, *expected):
    """Assert that all readers see one of `expected`, and that no trace of a killed task is visible."""
    actual = rows_or_none(table)
    assert actual in expected
    assert (delta_rs_rows(table) if deltalake.DeltaTable.is_deltatable(str(table)) else None) == actual
    versions = [int(file.stem) for file in commits(table)]
    assert versions == list(range(versions[0], versions[-1] + 1)) if versions else True, "a version is missing"
    for folder, _, names in os.walk(Path(table) / LOG_DIR):
        for name in (name for name in names if not name.startswith(".")):
            full = Path(folder, name).relative_to(table).as_posix()
            known = parse_log_name(full) is not None or full in (LAST_CHECKPOINT, LAST_VACUUM) or "/_sidecars/" in full
            assert known, f"{full} is visible and is not a log file"


def count_commits_of_run(table, run):
    """Count the commits that contain the run's app id."""
    return sum(json.dumps(run) in file.read_text() for file in commits(table))


def kill_points(site, steps, program):
    """The numbers of the steps at which to kill a program: all in the campaign, otherwise a sample that never changes.

    The sample has the first and the last step, each put of a commit and the step behind it, and a quarter of the rest.
    """
    numbers = range(len(steps))
    if site.is_campaign:
        return list(numbers)
    puts = [number for number, step in enumerate(steps) if step.startswith("os.link") and step.endswith(".json")]
    always = {0, len(steps) - 1, *puts, *(number + 1 for number in puts)}
    return sorted(always | set(Random(program).sample(numbers, len(steps) // 4)))


def kill_at_steps(site, folder, template, program, *, before, after, kinds=EVERYTHING, **arguments):
    """Kill the program at its `kill_points`, each time on a copy of `template`, and run it again. Returns its steps."""

    def fresh(name):
        return folder / name if template is None else shutil.copytree(template, folder / name)  # with its times

    table = fresh("whole")
    assert site.run(program, table, kinds=kinds, **arguments) is None
    check_whole(table, after)
    steps = site.steps
    table.rename(folder / f"killed {len(steps)}")
    for number in kill_points(site, steps, program):
        table = fresh(f"killed {number}")
        step = site.run(program, table, kill_at=number, kinds=kinds, **arguments)
        assert step is not None
        check_whole(table, before, after)
        assert site.run(program, table, kinds=kinds, **arguments) is None
        check_whole(table, after)
        if "run" in arguments:
            assert count_commits_of_run(table, arguments["run"]) == 1, f"killed at {step}"
        shutil.rmtree(table)
    return steps


def make_old(table, versions, *, seconds=_LONG_AGO_S):
    """Change the times of a table's commits and of their files, as if they were `seconds` old."""
    then = time.time() - seconds
    for file in (table / LOG_DIR).iterdir():
        if file.name[:20].isdigit() and int(file.name[:20]) < versions:
            os.utime(file, (then + int(file.name[:20]), then + int(file.name[:20])))
