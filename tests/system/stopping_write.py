"""A `write.py` that stops before or after its commit, as the test has requested.

`GATE` is a folder. A job that starts takes the next number, `1`, `2`, .... If the file `<number>.plan` contains
`written` (the data files are in place), `before` or `after` (the put of its commit), it makes the file
`<number>.<that>`, and waits for `<number>.go`.
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

GATE = Path(os.environ["GATE"])
COMMIT = re.compile(r"_delta_log/\d{20}\.json")


def numbered() -> int:
    number = 1
    while True:
        try:
            (GATE / f"{number}.started").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


NUMBER = numbered()


def stop(where: str) -> None:
    plan = GATE / f"{NUMBER}.plan"
    if not plan.exists() or plan.read_text() != where:
        return
    (GATE / f"{NUMBER}.{where}").touch()
    while not (GATE / f"{NUMBER}.go").exists():
        time.sleep(0.05)


def stopping(put):
    def stopped(store, name, data):
        if not COMMIT.fullmatch(name):
            return put(store, name, data)
        stop("before")
        committed = put(store, name, data)
        if committed:  # a lost race has made no commit
            stop("after")
        return committed

    return stopped


def stopping_behind(publish):
    def published(staging, files):
        answer = publish(staging, files)
        stop("written")
        return answer

    return published


LocalLogStore.write_if_absent = stopping(LocalLogStore.write_if_absent)
StagedWrite.publish = stopping_behind(StagedWrite.publish)

if __name__ == "__main__":
    sys.exit(run("write", WriteRequest.from_json, write, sys.argv[1:]))
