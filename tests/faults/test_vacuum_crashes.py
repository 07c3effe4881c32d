"""A vacuum is killed at its steps and run again.

Each version within the retention keeps its files, and the second run completes the work of the first one.
"""

from __future__ import annotations

import os
import shutil
import time

import pytest

from deltalite import DeltaTable
from tests.faults.crash_site import CHANGES, EVERYTHING
from tests.faults.killing import check_whole, count_commits_of_run, kill_points, make_old, rows_or_none
from tests.support.tables import actions_of, data_files

RUN = "airflow/dag/vacuum/-1/manual"
AGE_S = 8 * 24 * 3600
PROPERTIES = {"delta.checkpointInterval": "3", "delta.enableExpiredLogCleanup": "false"}


@pytest.fixture
def template(site, tmp_path):
    """A table of five versions, with orphan files and a staging folder that are beyond the retention.

    The files of versions 0 to 2 were replaced long ago, and the file of version 3 just now.
    """
    table = tmp_path / "template"
    for number in range(5):
        site.run("write_ids", table, run=f"run {number}", ids=[number], replaces=True, properties=PROPERTIES)
    age_removes(table, 4)
    make_old(table, 4, seconds=AGE_S)
    for name in ("a/b/orphan.parquet", "a/orphan.parquet", "_deltalite_staging/x/0/part.parquet"):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"x")
    for folder, _, names in os.walk(table):
        for name in ("", *names) if "_delta_log" not in folder else ():
            os.utime(os.path.join(folder, name), (time.time() - AGE_S - 60,) * 2)
    return table


def age_removes(table, version_count):
    """Make the removes of the first versions `AGE_S` old. Delete the checkpoints and checksums, which repeat them."""
    deleted_ms = int((time.time() - AGE_S) * 1000)
    for version in range(version_count):
        file = table / "_delta_log" / f"{version:020}.json"
        timestamps = [remove["deletionTimestamp"] for remove in actions_of(table, version)["remove"]]
        text = file.read_text()
        for timestamp in timestamps:
            text = text.replace(str(timestamp), str(deleted_ms))
        file.write_text(text)
    for checkpoint in (table / "_delta_log").glob("*.checkpoint.parquet"):
        checkpoint.unlink()
    for name in ("_last_checkpoint", *(f"{version:020}.crc" for version in range(version_count))):
        (table / "_delta_log" / name).unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kinds"), [pytest.param("full", EVERYTHING, marks=pytest.mark.campaign), ("lite", CHANGES)]
)
def test_a_vacuum_survives_kills_at_its_steps(site, tmp_path, template, mode, kinds):
    rows = [(4,)]
    rows_by_version = {3: [(3,)], 4: rows}
    vacuumed_table = shutil.copytree(template, tmp_path / "vacuumed")
    assert site.run("vacuum", vacuumed_table, kinds=kinds, run=RUN, mode=mode, hours=None) is None
    check_whole(vacuumed_table, rows)
    for version, expected_rows in rows_by_version.items():
        assert rows_or_none(f"{vacuumed_table}@v{version}") == expected_rows
    # A full vacuum also removes folders that it emptied. After a kill they are too young for the second run.
    assert mode == "lite" or not ((vacuumed_table / "a").exists() or (vacuumed_table / "_deltalite_staging").exists())
    steps = site.steps
    for number in kill_points(site, steps, "vacuum"):
        table = tmp_path / f"killed {number}"
        shutil.copytree(template, table)
        assert len(data_files(table)) == 8
        step = site.run("vacuum", table, kill_at=number, kinds=kinds, run=RUN, mode=mode, hours=None)
        assert step is not None
        check_whole(table, rows)
        for version, expected_rows in rows_by_version.items():
            assert rows_or_none(f"{table}@v{version}") == expected_rows, f"killed at {step}"
        assert site.run("vacuum", table, kinds=kinds, run=RUN, mode=mode, hours=None) is None
        check_whole(table, rows)
        for version, expected_rows in rows_by_version.items():
            assert rows_or_none(f"{table}@v{version}") == expected_rows, f"killed at {step}, and run again"
        remaining_files = data_files(table)
        assert len(remaining_files) == (2 if mode == "full" else 5), f"killed at {step}: {sorted(remaining_files)}"
        assert count_commits_of_run(table, RUN) == 1, f"killed at {step}"
        assert DeltaTable(str(table)).history(limit=1)[0]["operation"] == "VACUUM END"
        shutil.rmtree(table)
    assert sum(step.startswith("os.remove") for step in steps) >= 3, "no file was deleted"
    assert mode == "lite" or sum(step.startswith("os.rmdir") for step in steps) >= 5
