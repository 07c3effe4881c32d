"""A write in place through Spark's internals, also on the oldest supported Spark. The folders are local."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from deltalite.spark.hadoop.uris import spark_uri
from deltalite.spark.write import direct_write
from deltalite.spark.write.direct_write import DirectWriteError, write_directly
from tests.support.tables import values

pytestmark = pytest.mark.spark

STREAM_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.example.NoSuchClass",
    "spark.sql.streaming.fileSink.log.compactInterval": "1",
}


def files_below(folder):
    return sorted(path for path in folder.rglob("*.parquet"))


def paths(uris):
    return sorted(Path(unquote(urlsplit(uri).path)) for uri in uris)


def test_the_files_of_all_partitions_are_returned_and_nothing_else_is_written(spark, tmp_path):
    target = tmp_path / "new ü"
    frame = spark.sql(values("id, Day", "1, 'a b'", "2, null", "3, 'a b'")).coalesce(1)
    uris = write_directly(frame, spark_uri(str(target)), partition_columns=["Day"], options={"maxRecordsPerFile": "1"})
    assert paths(uris) == files_below(target) and len(uris) == 3
    assert [path for path in target.rglob("_*") if path.is_dir()] == []
    rows = spark.read.parquet(str(target)).collect()
    assert sorted((row.id, row.Day or "") for row in rows) == [(1, "a b"), (2, ""), (3, "a b")]


def test_a_frame_without_rows_is_written_as_one_file(spark, tmp_path):
    uris = write_directly(spark.range(0), spark_uri(str(tmp_path / "t")), partition_columns=[], options={})
    assert paths(uris) == files_below(tmp_path / "t") and len(uris) == 1
    assert spark.read.parquet(*uris).columns == ["id"]


def test_an_error_of_a_row_is_raised_unchanged(spark, tmp_path):
    frame = spark.sql("SELECT CAST(raise_error('a bad row') AS STRING) AS text")
    with pytest.raises(Exception, match="a bad row") as caught:
        write_directly(frame, spark_uri(str(tmp_path / "t")), partition_columns=[], options={})
    assert not isinstance(caught.value, DirectWriteError)


def write_manifest_of_version_2(_frame, _uri, manifest_uri, *_arguments):
    (manifest,) = paths([manifest_uri])
    manifest.mkdir()
    (manifest / "0").write_text("v2\n{}")


@pytest.mark.parametrize("change", ["a class", "a column", "the manifest's file", "the manifest's version"])
def test_a_change_in_spark_raises_the_error_that_leads_to_the_public_writer(spark, tmp_path, monkeypatch, change):
    partition_columns = []
    match change:
        case "a class":
            monkeypatch.setattr(direct_write, "_EXECUTION", "org.apache.spark.elsewhere")
        case "a column":
            partition_columns = ["unknown"]
        case "the manifest's file":
            monkeypatch.setattr(direct_write, "_write", lambda *_arguments: None)
        case _:
            monkeypatch.setattr(direct_write, "_write", write_manifest_of_version_2)
    with pytest.raises(DirectWriteError):
        write_directly(spark.range(1), spark_uri(str(tmp_path / "t")), partition_columns=partition_columns, options={})


@pytest.mark.parametrize(
    "content", [b"", b"v1\n{", b"v1\n[]", b"v1\n{}", b'v1\n{"action":"add","path":"a"}', b'v1\n{"path":1}', b"\xff"]
)
def test_a_malformed_manifest_raises_the_error_that_leads_to_the_public_writer(spark, tmp_path, monkeypatch, content):
    def write_manifest(_frame, _uri, manifest_uri, *_arguments):
        (manifest,) = paths([manifest_uri])
        manifest.mkdir()
        (manifest / "0").write_bytes(content)

    monkeypatch.setattr(direct_write, "_write", write_manifest)
    with pytest.raises(DirectWriteError, match="manifest of Spark's committer is malformed"):
        write_directly(spark.range(1), spark_uri(str(tmp_path / "t")), partition_columns=[], options={})


@pytest.mark.parametrize(("setting", "value"), STREAM_SETTINGS.items())
def test_settings_for_streams_do_not_change_the_manifest(spark, tmp_path, setting, value):
    session = spark.newSession()
    session.conf.set(setting, value)
    uris = write_directly(session.range(1), spark_uri(str(tmp_path / "t")), partition_columns=[], options={})
    assert paths(uris) == files_below(tmp_path / "t")
