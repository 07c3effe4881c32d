"""A `write.py` that stops before or after its commit, as the test has requested.

The environment variable `GATE` names a folder. Each job that starts takes the next number: `1`, `2`, .... The file
`<number>.plan` names the point at which the job stops:

- `written`: the data files are in place.
- `before`: the job is about to write its commit.
- `after`: the job has written its commit.

At this point the job creates the file `<number>.<point>`, and waits for the file `<number>.go`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from deltalite.commands.write import write
from deltalite.jobs.runner import run
from deltalite.requests import WriteRequest
from deltalite.spark.write.staging import StagedWrite
from deltalite.storage.local import LocalLogStore

GATE_FOLDER = Path(os.environ["GATE"])
COMMIT_FILE_PATTERN = re.compile(r"_delta_log/\d{20}\.json")


def take_number() -> int:
    """Return the first number that no other job has taken."""
    number = 1
    while True:
        try:
            (GATE_FOLDER / f"{number}.started").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


JOB_NUMBER = take_number()


def stop_if_planned(point: str) -> None:
    """Stop until the test allows the job to continue, if the plan names this point."""
    plan_file = GATE_FOLDER / f"{JOB_NUMBER}.plan"
    if not plan_file.exists() or plan_file.read_text() != point:
        return
    (GATE_FOLDER / f"{JOB_NUMBER}.{point}").touch()
    while not (GATE_FOLDER / f"{JOB_NUMBER}.go").exists():
        time.sleep(0.05)


def with_stops_around_commit(write_if_absent):
    """Return a `write_if_absent` that stops before and after a commit."""

    def write_and_stop(store, name, data):
        if not COMMIT_FILE_PATTERN.fullmatch(name):
            return write_if_absent(store, name, data)
        stop_if_planned("before")
        is_created = write_if_absent(store, name, data)
        if is_created:  # If the file existed, another writer has committed this version.
            stop_if_planned("after")
        return is_created

    return write_and_stop


def with_stop_after_files(publish):
    """Return a `publish` that stops after the data files are in place."""

    def publish_and_stop(staging, files):
        published_files = publish(staging, files)
        stop_if_planned("written")
        return published_files

    return publish_and_stop


LocalLogStore.write_if_absent = with_stops_around_commit(LocalLogStore.write_if_absent)
StagedWrite.publish = with_stop_after_files(StagedWrite.publish)

if __name__ == "__main__":
    sys.exit(run("write", WriteRequest.from_json, write, sys.argv[1:]))
