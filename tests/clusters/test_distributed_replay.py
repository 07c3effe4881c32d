"""A replay of a log by the executors of a real cluster, and a checkpoint of several files that they write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_deltalite.shipping import installed_library, library_sources, library_zip
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.clusters.kubernetes import NAMESPACE
from tests.support.tables import schema_json, write_foreign_table

pytestmark = pytest.mark.campaign
# The modes with different ways to submit a job. A user's job does not depend on the way in which an operator waits.
SUBMISSIONS = ["local", "standalone", "yarn-client", "yarn-cluster", "pod", "pod-client"]
FILES, REMOVED_FILES = 400, 100


@pytest.mark.parametrize("mode", SUBMISSIONS, indirect=True)
def test_executors_replay_a_log_and_write_its_checkpoint(mode):
    put_log(mode)
    answer_file = mode.folder / "answer.json"
    submit(mode, Path(__file__).with_name("replay_job.py"), f"{mode.lake}/orders", str(answer_file))
    answer = json.loads(answer_file.read_text())
    expected_paths = sorted(f"{number}.parquet" for number in range(REMOVED_FILES, FILES))
    assert sorted(answer["paths"]) == expected_paths
    # 300 adds, 100 removes, the protocol and the metadata, with at most 100 files in each part.
    assert answer["checkpoint_parts"] == 4
    assert len({(end.application, end.executor) for end in mode.event_logs.task_ends()}) == mode.executors
    table = mode.local_table("orders")
    for version in range(3):
        (table / commit_name(version)).unlink()
    snapshot = Snapshot.load(LocalLogStore(str(table)))
    assert (snapshot.version, sorted(snapshot.files["path"].to_pylist())) == (2, expected_paths)


def put_log(mode) -> None:
    """Put a log of three versions. The data files that it names do not exist, because a replay reads only the log."""
    table = mode.folder / "orders"
    fields = {"size": 1, "partitionValues": {}, "dataChange": True}
    adds = [{"path": f"{number}.parquet", "modificationTime": 0, **fields} for number in range(FILES)]
    write_foreign_table(table, schema_json(("id", "long")), adds[: FILES // 2])
    removal = {"deletionTimestamp": 4_000_000_000_000, "extendedFileMetadata": True}
    removes = [{"path": add["path"], **removal, **fields} for add in adds[:REMOVED_FILES]]
    commits = [[{"add": add} for add in adds[FILES // 2 :]], [{"remove": remove} for remove in removes]]
    for version, actions in enumerate(commits, start=1):
        (table / commit_name(version)).write_text("\n".join(map(json.dumps, actions)))
    mode.put_table(table)


def submit(mode, script: Path, *arguments: str) -> None:
    """Submit a PySpark job with the library, and wait for its end."""
    library, copy = mode.folder / "library.zip", mode.folder / script.name
    library.write_bytes(library_zip(library_sources(installed_library())))
    copy.write_bytes(script.read_bytes())
    is_in_pod = mode.name == "pod"
    prefix = "local://" if is_in_pod else ""  # the pods mount the folder of the test
    program = mode.task_parameters.get("spark_binary", str(Path(sys.executable).with_name("spark-submit")))
    command = [program, "--master", mode.connection["host"], "--deploy-mode", mode.connection["extra"]["deploy-mode"]]
    settings = mode.settings | ({"spark.kubernetes.namespace": NAMESPACE} if is_in_pod else {})
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--py-files", f"{prefix}{library}", f"{prefix}{copy}", *arguments]
    completed = subprocess.run(
        command, env=os.environ | mode.worker_environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout[-3000:] + completed.stderr[-3000:]
