"""Many concurrent writers of one table: the order of the versions explains every commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import deltalake
import pytest

from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.faults.history import check
from tests.unit.builders import create

CHECKOUT = Path(__file__).resolve().parents[2]


def reported_commits(table, writers, operations):
    """The commits that the processes report: the version by app id, or None if they gave up."""
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'spark_jobs'}"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.rival", str(table), str(number), str(operations)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(1, writers + 1)
    ]  # fmt: skip
    versions = {}
    try:
        for process in processes:
            out, err = process.communicate(timeout=600)
            assert process.returncode == 0, err[-3000:]
            versions |= dict(json.loads(line) for line in out.splitlines())
    finally:
        for process in processes:
            process.kill()
    return versions


@pytest.mark.parametrize(
    ("level", "writers", "operations"),
    [pytest.param("Serializable", 8, 125, marks=pytest.mark.campaign), ("WriteSerializable", 4, 60)],
)
def test_the_order_of_versions_explains_every_commit(tmp_path, level, writers, operations):
    table = tmp_path / "t"
    create(LocalLogStore(str(table)), configuration={"delta.isolationLevel": level}, partition_columns=("day",))
    reported = reported_commits(table, writers, operations)
    runs, files = check(table, level)
    # No commit was lost, none is there twice, and none is there that nobody knows of.
    assert runs == {version: app_id for app_id, version in reported.items() if version is not None}
    kinds = Counter(c["operation"] for c in deltalake.DeltaTable(str(table)).history())
    assert {"APPEND", "REPLACE", "DELETE", "UPSERT", "COMPACT", "COUNT", "DESCRIBE", "EVOLVE"} <= set(kinds)
    # Whatever checkpoints were written between, a reader gets what the commits say; so does delta-rs.
    assert set(Snapshot.load(LocalLogStore(str(table))).files["path"].to_pylist()) == set(files)
    assert {Path(uri).name for uri in deltalake.DeltaTable(str(table)).file_uris()} == {Path(p).name for p in files}
