"""Spark writes local files with a Hadoop client that makes no checksum files, unless the user has chosen a client."""

from __future__ import annotations

import pytest

from deltalite.spark.runtime.session import settings
from deltalite.spark.write.staging import StagedWrite
from tests.support.tables import rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture
def checksum_counts(monkeypatch):
    """The number of checksum files beside the staged files of each write."""
    counts, publish = [], StagedWrite.publish

    def record(staging, files):
        counts.append(len(list((staging._folder._root / staging._staging).rglob(".*.crc"))))
        return publish(staging, files)

    monkeypatch.setattr(StagedWrite, "publish", record)
    return counts


@pytest.mark.parametrize(
    ("user_settings", "num_checksums"), [({}, 0), ({"fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem"}, 2)]
)
def test_spark_writes_local_files_without_checksum_files(
    spark, tmp_path, checksum_counts, user_settings, num_checksums
):
    table = tmp_path / "t"
    with settings(spark, user_settings):
        write_rows(spark, table, "SELECT id, id % 2 AS p FROM range(0, 4, 1, 1)", partition_by=["p"])
    assert rows(table) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert checksum_counts == [num_checksums]
