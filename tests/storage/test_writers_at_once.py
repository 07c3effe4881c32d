"""Sixteen concurrent writers of one table on S3: the log contains each commit that a writer reported, exactly once.

The writers are threads, half of them in the JVM of the tests and half in another. Each put is a separate request, and
only the storage decides which writer creates a version.
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
WRITERS_PER_JVM = 8


@pytest.mark.campaign
@pytest.mark.parametrize("appends", [3, 25])
def test_concurrent_writers_in_two_jvms_lose_no_commit(spark, s3, s3a, appends):
    table = f"{s3a}/{uuid.uuid4()}"
    write_rows(spark, table, "SELECT 1 AS id")
    command = [sys.executable, "-m", "tests.storage.appender", table, json.dumps(s3.hadoop_options)]
    command += [str(WRITERS_PER_JVM), str(WRITERS_PER_JVM), str(appends)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=CHECKOUT, **pipes) as appender:
        assert appender.stdout.readline() == b"at work\n"

        def resume_appender():
            """Close the standard input of the appender, for which its writers wait."""
            if not appender.stdin.closed:
                appender.stdin.close()

        test_versions = append_from_threads(spark, table, 0, WRITERS_PER_JVM, appends, after_commit=resume_appender)
        appender_versions = json.loads(appender.stdout.read().splitlines()[-1])
    assert appender.returncode == 0
    metadata_by_version = {
        version: f"{number}-{count}"
        for number, versions in enumerate(test_versions + appender_versions)
        for count, version in enumerate(versions)
    }
    assert sorted(metadata_by_version) == list(range(1, 2 * WRITERS_PER_JVM * appends + 1))
    store = open_store(table, storage_options=s3.fsspec_options)
    for version, user_metadata in metadata_by_version.items():
        info, *adds = map(json.loads, store.read(f"_delta_log/{version:020d}.json").splitlines())
        assert info["commitInfo"]["userMetadata"] == user_metadata
        assert [add["add"]["path"].startswith(f"{user_metadata}-") for add in adds] == [True]
    assert readable_store(spark, table).read(f"_delta_log/{2 * WRITERS_PER_JVM * appends + 1:020d}.json") is None
    first_versions = [min(map(min, versions)) for versions in (test_versions, appender_versions)]
    last_versions = [max(map(max, versions)) for versions in (test_versions, appender_versions)]
    assert max(first_versions) < min(last_versions), "The two JVMs did not write concurrently."
