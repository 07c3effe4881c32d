"""Many concurrent writers of one table: the order of the versions explains every commit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import deltalake
import pytest

from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.faults.crash_site import environment_of_program
from tests.faults.history import check_history
from tests.unit.builders import create


def run_writers(table, writers, operations):
    """Run the writers in processes. Returns their versions by app id. The version of a run without a commit is None."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.rival", str(table), str(number), str(operations)],
            env=environment_of_program(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(1, writers + 1)
    ]  # fmt: skip
    versions = {}
    try:
        for process in processes:
            output, errors = process.communicate(timeout=600)
            assert process.returncode == 0, errors[-3000:]
            versions |= dict(json.loads(line) for line in output.splitlines())
    finally:
        for process in processes:
            process.kill()
    return versions


@pytest.mark.parametrize(
    ("isolation_level", "writers", "operations"),
    [pytest.param("Serializable", 8, 125, marks=pytest.mark.campaign), ("WriteSerializable", 4, 30)],
)
def test_the_order_of_versions_explains_every_commit(tmp_path, isolation_level, writers, operations):
    table = tmp_path / "t"
    create(
        LocalLogStore(str(table)), configuration={"delta.isolationLevel": isolation_level}, partition_columns=("day",)
    )
    reported_versions = run_writers(table, writers, operations)
    app_ids_by_version, files = check_history(table, isolation_level)
    # The log contains each reported commit exactly once, and no other commit.
    assert app_ids_by_version == {
        version: app_id for app_id, version in reported_versions.items() if version is not None
    }
    operation_counts = Counter(entry["operation"] for entry in deltalake.DeltaTable(str(table)).history())
    assert {"APPEND", "REPLACE", "DELETE", "UPSERT", "COMPACT", "COUNT", "DESCRIBE", "EVOLVE"} <= set(operation_counts)
    # This library and delta-rs also use the checkpoints, and must read the files that the commits describe.
    assert set(Snapshot.load(LocalLogStore(str(table))).files["path"].to_pylist()) == set(files)
    assert {Path(uri).name for uri in deltalake.DeltaTable(str(table)).file_uris()} == {
        Path(path).name for path in files
    }
