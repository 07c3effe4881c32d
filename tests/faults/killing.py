"""A program is killed at each of its steps, and run again as Airflow would: what must hold after each of the two."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import deltalake
import pyarrow as pa

from deltalite import DeltaTable
from deltalite.errors import TableNotFoundError
from deltalite.protocol.file_names import LAST_CHECKPOINT, LAST_VACUUM, LOG_DIR, parse_log_name
from tests.faults.crash_site import EVERYTHING
from tests.support.tables import ordered, rows

_LONG_AGO_S = 60 * 24 * 3600


def rows_by_us(table):
    try:
        return rows(table)
    except TableNotFoundError:
        return None


def rows_by_delta_rs(table):
    if not deltalake.DeltaTable.is_deltatable(str(table)):
        return None
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table))).execute("SELECT * FROM t")
    names = [field.name for field in DeltaTable(str(table)).schema]
    return ordered(tuple(row[name] for name in names) for row in pa.table(found.read_all()).to_pylist())


def commits(table):
    log = Path(table) / LOG_DIR
    return sorted(file for file in log.glob("*.json") if len(file.stem) == 20 and file.stem.isdigit())


def check_whole(table, *expected):
    """The table is one of `expected`, by all readers, and nothing of a killed task can be seen."""
    found = rows_by_us(table)
    assert found in expected
    assert rows_by_delta_rs(table) == found
    versions = [int(file.stem) for file in commits(table)]
    assert versions == list(range(versions[0], versions[-1] + 1)) if versions else True, "a version is missing"
    for folder, _, names in os.walk(Path(table) / LOG_DIR):
        for name in (name for name in names if not name.startswith(".")):
            full = Path(folder, name).relative_to(table).as_posix()
            known = parse_log_name(full) is not None or full in (LAST_CHECKPOINT, LAST_VACUUM) or "/_sidecars/" in full
            assert known, f"{full} can be seen and is no file of a log"


def times_in_log(table, run):
    return sum(json.dumps(run) in file.read_text() for file in commits(table))


def killed_everywhere(site, folder, template, program, *, before, after, kinds=EVERYTHING, **arguments):
    """Kill the program at its first step, on a copy of `template`, at its second, and so on; each time run it again."""
    steps = []
    while True:
        table = folder / f"killed {len(steps)}"
        if template is not None:
            shutil.copytree(template, table)  # with its times
        step = site.run(program, table, kill_at=len(steps), kinds=kinds, **arguments)
        check_whole(table, before, after)
        if step is None:
            break
        assert site.run(program, table, kinds=kinds, **arguments) is None
        check_whole(table, after)
        if "run" in arguments:
            assert times_in_log(table, arguments["run"]) == 1, f"killed at {step}"
        shutil.rmtree(table)
        steps.append(step)
    return steps


def aged(table, versions, *, seconds=_LONG_AGO_S):
    """The commits of a table, and what belongs to them, as if they had been made so long ago."""
    then = time.time() - seconds
    for file in (table / LOG_DIR).iterdir():
        if file.name[:20].isdigit() and int(file.name[:20]) < versions:
            os.utime(file, (then + int(file.name[:20]), then + int(file.name[:20])))
