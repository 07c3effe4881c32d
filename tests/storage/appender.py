"""Appends to one table on S3 from several threads, in a separate JVM.

The program prints `at work` after its first commit. Its writers then wait for a line or the end of the standard input,
so that the writers of the test can begin.

    python -m tests.storage.appender <table> <S3A's options as JSON> <number of the first writer> <number of writers>
        <appends of each writer>
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


def append_from_threads(spark, table, first_writer, writers, appends, *, after_commit=lambda: None):
    """Append from concurrent threads and call `after_commit` after each commit.

    Returns the committed versions of each writer, in the order of the writers' numbers.
    """
    numbers = range(first_writer, first_writer + writers)
    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(lambda number: append(spark, table, number, appends, after_commit), numbers))


def append(spark, table, number, appends, after_commit):
    """Append repeatedly and return the versions in order. Each commit adds a file with a unique name and no rows."""
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
        after_commit()
    return versions


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    from tests.support.remote import session_options

    address, options, first_number, writer_count, append_count = sys.argv[1:]
    builder = SparkSession.builder.master("local[1]")
    for key, value in session_options(json.loads(options)).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    first_commit_is_pending = threading.Semaphore()
    test_began = threading.Event()

    def wait_for_the_test():
        if first_commit_is_pending.acquire(blocking=False):
            print("at work", flush=True)
            sys.stdin.readline()
            test_began.set()
        test_began.wait()

    counts = {"writers": int(writer_count), "appends": int(append_count)}
    versions = append_from_threads(session, address, int(first_number), **counts, after_commit=wait_for_the_test)
    print("\n" + json.dumps(versions))
