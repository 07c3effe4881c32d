"""The number of requests that tasks, sensors and readers send to an object store, counted by a proxy."""

from __future__ import annotations

from collections import Counter

import pytest

from deltalite import DeltaTable, watch
from deltalite.conditions import CommitCondition
from deltalite.protocol.file_names import LAST_CHECKPOINT, checksum_name, commit_name
from deltalite.storage.opening import open_store
from tests.support.google_storage import GoogleStorage
from tests.support.object_stores import Azure
from tests.support.remote import S3
from tests.support.tables import write_rows

pytestmark = pytest.mark.spark


def count_by_part_of_table(requests):
    """Count requests by the part of the table that they concern: its log, its staging folder, or its data files."""
    addresses = [f"{request.path}?{request.query}" for request in requests]
    names = {"_delta_log": "log", "_deltalite_staging": "staging"}
    return Counter(next((part for name, part in names.items() if name in address), "data") for address in addresses)


# The largest numbers of requests of an append, for each part of the table.
APPEND_LIMITS = {
    S3: {"log": 15, "data": 8, "staging": 0},
    Azure: {"log": 54, "data": 15, "staging": 0},
    GoogleStorage: {"log": 20, "data": 17, "staging": 0},
}


def test_requests_of_a_small_append_a_poll_and_of_opening_a_table(spark, proxied):
    table, worker_table = f"{proxied.bucket.spark_root}/t", f"{proxied.bucket.worker_root}/t"
    for number in range(3):
        with proxied.proxy.recording() as append_requests:
            write_rows(spark, table, f"SELECT {number} AS id", run=f"run-{number}")
    conditional_puts = [request.object_name for request in append_requests if request.is_conditional_put]
    assert sum(name.endswith(commit_name(2)) for name in conditional_puts) == 1
    if isinstance(proxied.bucket, S3):
        root, listing = f"/{proxied.bucket.bucket}/t/", f"/{proxied.bucket.bucket}"
        to_log = [
            (r.method, r.path.removeprefix(root)) for r in append_requests if "_delta_log" in f"{r.path}{r.query}"
        ]
        puts_of_probe = [name for method, name in to_log if method == "PUT" and "/.put-if-absent-" in name]
        assert len(puts_of_probe) == 2, "the service is not Amazon's, so two puts of a probe file test its conditions"
        assert len(to_log) == 14
        assert to_log[-9:] == [
            ("HEAD", LAST_CHECKPOINT),
            ("GET", listing),
            ("GET", checksum_name(1)),
            ("GET", commit_name(1)),
            ("GET", commit_name(0)),
            ("HEAD", commit_name(1)),  # the log still holds the commit that the task read
            ("GET", commit_name(1)),
            ("PUT", commit_name(2)),
            ("PUT", checksum_name(2)),
        ]
    counts = count_by_part_of_table(append_requests)
    assert all(counts[part] <= limit for part, limit in APPEND_LIMITS[type(proxied.bucket)].items()), counts

    options = proxied.bucket.fsspec_options
    with proxied.proxy.recording() as opening_requests:
        assert DeltaTable(worker_table, storage_options=options).version == 2
    listings = 2 if isinstance(proxied.bucket, Azure) else 1  # adlfs asks first whether the folder is a file
    assert len(opening_requests) == 2 + listings, "the last checkpoint, and the checksum of the newest version"
    store = open_store(worker_table, storage_options=options)
    position = watch.position_at(store, 2)
    with proxied.proxy.recording() as poll_requests:
        assert watch.poll(store, position, CommitCondition()).match is None
    assert [request.path.rpartition("/")[2] for request in poll_requests] == [
        "00000000000000000003.json",
        "00000000000000000002.json",
    ]
