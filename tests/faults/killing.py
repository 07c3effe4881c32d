"""Kill a program at its steps, run it again as Airflow does, and check the table after the kill and after the rerun."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from random import Random

import deltalake

from deltalite.errors import TableNotFoundError
from deltalite.protocol.file_names import (
    LAST_CHECKPOINT,
    LAST_VACUUM,
    LOADED_FILES_DIR,
    LOG_DIR,
    SIDECAR_DIR,
    parse_log_name,
)
from tests.faults.crash_site import EVERYTHING
from tests.support.tables import delta_rs_rows, rows

_LONG_AGO_S = 60 * 24 * 3600


def rows_or_none(table):
    """Return the rows of a table, or None if the folder has no table."""
    try:
        return rows(table)
    except TableNotFoundError:
        return None


def commit_files(table):
    """Return the sorted paths of a table's commits."""
    log = Path(table) / LOG_DIR
    return sorted(file for file in log.glob("*.json") if len(file.stem) == 20 and file.stem.isdigit())


def check_whole(table, *allowed_rows):
    """Assert that this library and delta-rs read the same rows, and that the log has only complete log files.

    The rows must be one of the lists `allowed_rows`. None stands for a folder that is not a table.
    """
    actual_rows = rows_or_none(table)
    assert actual_rows in allowed_rows
    assert (delta_rs_rows(table) if deltalake.DeltaTable.is_deltatable(str(table)) else None) == actual_rows
    versions = [int(file.stem) for file in commit_files(table)]
    if versions:
        assert versions == list(range(versions[0], versions[-1] + 1)), "a version is missing"
    for folder, _, names in os.walk(Path(table) / LOG_DIR):
        for name in (name for name in names if not name.startswith(".")):
            path = Path(folder, name).relative_to(table).as_posix()
            in_subfolder = path.startswith((f"{SIDECAR_DIR}/", f"{LOADED_FILES_DIR}/"))
            is_pointer_or_sidecar = path in (LAST_CHECKPOINT, LAST_VACUUM) or in_subfolder
            assert is_pointer_or_sidecar or parse_log_name(path) is not None, f"{path} is visible and is not a log file"


def count_commits_of_run(table, run):
    """Count the commits that contain the run's app id."""
    return sum(json.dumps(run) in file.read_text() for file in commit_files(table))


def json_links(steps):
    """Return the steps that link a JSON file of the log, such as a commit."""
    return [step for step in steps if step.startswith("os.link") and step.endswith(".json")]


def kill_points(site, steps, program):
    """Return the numbers of the steps at which to kill a program: all steps in the campaign, otherwise a fixed sample.

    The sample has the first link of a JSON file of the log, the step after each such link, and a tenth of all steps. A
    kill at a link prevents it, and a kill at the next step follows it. A program that links no JSON file is killed at
    its first link. The tenth is chosen at random, with the name of the program as the seed.
    """
    numbers = range(len(steps))
    if site.is_campaign:
        return list(numbers)
    links = [number for number in numbers if steps[number].startswith("os.link")]
    json_link_numbers = [number for number in links if steps[number].endswith(".json")]
    fixed_numbers = {*json_link_numbers[:1], *(number + 1 for number in json_link_numbers)} or set(links[:1])
    return sorted((fixed_numbers & set(numbers)) | set(Random(program).sample(numbers, len(steps) // 10)))


def kill_at_steps(
    site, folder, template, program, *, rows_before, rows_after=None, app_ids=(), kinds=EVERYTHING, **arguments
):
    """Kill the program at each of its `kill_points` and run it again. Returns the steps of a run without a kill.

    Each trial begins with a copy of the table `template`, or without a table if `template` is None. A killed program
    must leave `rows_before` or `rows_after`, and the second run must leave `rows_after`. The default of `rows_after` is
    the rows that a run without a kill leaves. After the second run the table must have one commit of each of the
    `app_ids`, by default of the `run` in `arguments`. The table of the run without a kill remains in the folder "not
    killed".
    """
    if "run" in arguments:
        app_ids = app_ids or (arguments["run"],)

    def copy_of_template(name):
        # `copytree` keeps the modification times, which decide what a cleanup or a vacuum deletes.
        return folder / name if template is None else shutil.copytree(template, folder / name)

    table = copy_of_template("not killed")
    assert site.run(program, table, kinds=kinds, **arguments) is None
    rows_after = rows_or_none(table) if rows_after is None else rows_after
    check_whole(table, rows_after)
    steps = site.steps
    for number in kill_points(site, steps, program):
        table = copy_of_template(f"killed {number}")
        step = site.run(program, table, kill_at=number, kinds=kinds, **arguments)
        assert step is not None
        check_whole(table, rows_before, rows_after)
        assert site.run(program, table, kinds=kinds, **arguments) is None
        check_whole(table, rows_after)
        for app_id in app_ids:
            assert count_commits_of_run(table, app_id) == 1, f"killed at {step}"
        shutil.rmtree(table)
    return steps


def make_old(table, first_new_version, *, seconds=_LONG_AGO_S):
    """Make the log files before `first_new_version` about `seconds` old, by their modification times."""
    modified_s = time.time() - seconds
    for file in (table / LOG_DIR).iterdir():
        if file.name[:20].isdigit() and (version := int(file.name[:20])) < first_new_version:
            os.utime(file, (modified_s + version, modified_s + version))
