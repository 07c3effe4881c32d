"""Several writers of one table on S3, each a thread, in a JVM other than that of the test.

The program prints `at work` after its first commit. Its writers go on when it reads a line, so the writers of the test
can begin in between.

python -m tests.storage.appender <table> <S3A's options as JSON> <name of the first writer> <writers> <appends>
"""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

from deltalite.protocol.actions import AddFile
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.txn.commit import Committed, commit
from deltalite.txn.proposal import BaseState, Operation, Proposal


def append_from_threads(spark, table, first, writers, appends, *, each=lambda: None):
    """The versions that each writer, by its number, believes it made; `each` is called after each commit."""
    numbers = range(first, first + writers)
    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(lambda number: append(spark, table, number, appends, each), numbers))


def append(spark, table, number, appends, each):
    """Append repeatedly; returns the versions in order. Each commit adds a file with a unique name and no rows."""
    store = writable_store(spark, table, single_writer=False)
    base = Snapshot.load(store)
    version, versions = base.version, []
    for count in range(appends):
        add = AddFile(
            path=f"{number}-{count}-{uuid.uuid4()}.parquet", partition_values={}, size_bytes=1,
            modification_time_ms=0, data_change=True,
        )  # fmt: skip
        outcome = commit(
            store,
            Proposal(
                operation=Operation(name="WRITE", user_metadata=f"{number}-{count}"), adds=(add,),
                base=dataclasses.replace(BaseState.of(base), version=version),
            ),
        )  # fmt: skip
        assert isinstance(outcome, Committed)
        version = outcome.version
        versions.append(version)
        each()
    return versions


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    from tests.support.remote import session_options

    address, options, first_writer, writer_count, append_count = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]")
    for key, value in session_options(json.loads(options)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    is_first = threading.Semaphore()
    others_began = threading.Event()

    def wait_for_the_others():
        if is_first.acquire(blocking=False):
            print("at work", flush=True)
            sys.stdin.readline()
            others_began.set()
        others_began.wait()

    numbers = int(first_writer), int(writer_count), int(append_count)
    print("\n" + json.dumps(append_from_threads(session, address, *numbers, each=wait_for_the_others)))
