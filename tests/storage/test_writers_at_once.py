"""Sixteen writers of one table on S3: every commit that a writer believes in is in the log, once.

They are threads, half of them in the JVM of the tests and half in another: each put is a separate request, and only
the storage decides between them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pytest

from deltalite.spark.hadoop.opening import readable_store
from deltalite.storage.opening import open_store
from tests.storage.appender import append_from_threads
from tests.support.remote import CHECKOUT
from tests.support.tables import write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WRITERS = 8


@pytest.mark.parametrize("appends", [3, pytest.param(25, marks=pytest.mark.campaign)])
def test_no_commit_of_two_jvms_is_lost(spark, s3, s3a, appends):
    table = f"{s3a}/{uuid.uuid4()}"
    write_rows(spark, table, "SELECT 1 AS id")
    command = [sys.executable, "-m", "tests.storage.appender", table, json.dumps(s3.hadoop_options)]
    command += [str(WRITERS), str(WRITERS), str(appends)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=CHECKOUT, **pipes) as other:
        assert other.stdout.readline() == b"at work\n"

        def let_them_go_on():
            if not other.stdin.closed:
                other.stdin.close()

        ours = append_from_threads(spark, table, 0, WRITERS, appends, each=let_them_go_on)
        theirs = json.loads(other.stdout.read().splitlines()[-1])
    assert other.returncode == 0
    believed = {version: f"{n}-{count}" for n, made in enumerate(ours + theirs) for count, version in enumerate(made)}
    assert sorted(believed) == list(range(1, 2 * WRITERS * appends + 1))
    store = open_store(table, storage_options=s3.fsspec_options)
    for version, mark in believed.items():
        info, *adds = map(json.loads, store.read(f"_delta_log/{version:020d}.json").splitlines())
        assert info["commitInfo"]["userMetadata"] == mark
        assert [add["add"]["path"].startswith(f"{mark}-") for add in adds] == [True]
    assert readable_store(spark, table).read(f"_delta_log/{2 * WRITERS * appends + 1:020d}.json") is None
    first = [min(map(min, made)) for made in (ours, theirs)]
    last = [max(map(max, made)) for made in (ours, theirs)]
    assert max(first) < min(last), "The two JVMs were not at work at the same time."
