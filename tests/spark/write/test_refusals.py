"""An invalid write raises an error of the library with a remedy, and changes no file."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from deltalite.errors import (
    ConcurrentModificationException,
    CorruptCheckpointError,
    CorruptLogError,
    InvalidRequestError,
    InvalidTableAddressError,
    SourceError,
    StoragePermissionError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    UnsupportedFeatureError,
    UnsupportedStorageError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.requests import Source
from deltalite.storage.local import LocalLogStore
from tests.support.racing import run_before_commits
from tests.support.selection import sample_every
from tests.support.tables import actions_of, data_files, folder_content, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

ONE_ROW = values("id", "1")
NOBODY = 65534  # the id of the user `nobody`


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table with three versions, each of which appends a row."""
    table = tmp_path_factory.mktemp("template") / "t"
    for _ in range(3):
        write_rows(spark, table, ONE_ROW)
    return table


@pytest.fixture
def table(template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(template, tmp_path / "t")


def log_file(table, version, ending="json"):
    return table / "_delta_log" / f"{version:020}.{ending}"


def assert_rejected(spark, table, error, match, query=ONE_ROW, **options):
    """Assert that the write is rejected with a remedy and changes no file; returns the error."""
    content_before = folder_content(table)
    with pytest.raises(error, match=match) as error_info:
        write_rows(spark, table, query, **options)
    assert error_info.value.remedy and len(error_info.value.remedy) > 10
    assert folder_content(table) == content_before
    return error_info.value


def test_a_log_with_a_corrupt_or_missing_commit_is_rejected(spark, table):
    valid_text = log_file(table, 1).read_text()
    log_file(table, 1).write_text(valid_text[: len(valid_text) // 2])
    assert_rejected(spark, table, CorruptLogError, f"{1:020}.json")
    log_file(table, 1).unlink()
    assert_rejected(spark, table, VersionGapError, "1")
    log_file(table, 1).write_text(valid_text)
    write_rows(spark, table, ONE_ROW)
    assert len(rows(table)) == 4


def test_a_corrupt_checkpoint_is_ignored_if_the_commits_exist_and_rejected_otherwise(spark, table):
    for _ in range(3, 12):
        write_rows(spark, table, ONE_ROW)
    checkpoint = log_file(table, 10, "checkpoint.parquet")
    valid_bytes = checkpoint.read_bytes()
    for corrupt_bytes in (b"", b"PAR1", valid_bytes[: len(valid_bytes) // 2] + b"x" * (len(valid_bytes) // 2)):
        checkpoint.write_bytes(corrupt_bytes)
        assert write_rows(spark, table, ONE_ROW).committed
    checkpoint.unlink()
    assert write_rows(spark, table, ONE_ROW).version == 15
    assert len(rows(table)) == 16
    for version in range(3):
        log_file(table, version).unlink()
    checkpoint.write_bytes(b"PAR1")
    assert_rejected(spark, table, (CorruptCheckpointError, VersionGapError, CorruptLogError), "10|0")
    checkpoint.write_bytes(valid_bytes)
    write_rows(spark, table, ONE_ROW)
    assert len(rows(table)) == 17


@pytest.mark.parametrize(
    ("protocol", "text"),
    [
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["timeTravelToo"],
                "writerFeatures": ["timeTravelToo"],
            },
            "timeTravelToo",
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["writeOnlyThing"]}, "writeOnlyThing"),
        ({"minReaderVersion": 4, "minWriterVersion": 7}, "4"),
        ({"minReaderVersion": 1, "minWriterVersion": 9}, "9"),
    ],
)
def test_the_error_names_the_unsupported_feature_or_version_of_a_protocol(spark, table, protocol, text):
    log_file(table, 3).write_text(json.dumps({"protocol": protocol}))
    for mode in ("append", "overwrite"):
        assert_rejected(spark, table, UnsupportedFeatureError, text, mode=mode)
    assert_rejected(spark, table, UnsupportedFeatureError, text, mode="ignore", run="a")


@pytest.mark.parametrize("file_name", ["stray.parquet", "day=2026-01-01/part-0.parquet"])
def test_a_folder_with_other_files_is_not_used_for_a_new_table(spark, tmp_path, file_name):
    table = tmp_path / "lake"
    (table / file_name).parent.mkdir(parents=True)
    (table / file_name).write_bytes(b"PAR1")
    for mode in ("append", "overwrite", "ignore", "error"):
        assert_rejected(spark, table, InvalidRequestError, "not a Delta table", mode=mode)


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("", InvalidRequestError),
        (" /lake/t", InvalidTableAddressError),
        ("/lake/{{ ds }}", InvalidTableAddressError),
        ("nowhere://bucket/t", UnsupportedStorageError),
        ("file:t", InvalidTableAddressError),
    ],
)
def test_an_invalid_address_is_rejected(spark, address, error):
    with pytest.raises(error) as error_info:
        write_rows(spark, address, ONE_ROW)
    assert error_info.value.remedy


def test_a_file_at_the_address_of_the_table_is_rejected(spark, tmp_path):
    file = tmp_path / "t"
    file.write_text("x")
    with pytest.raises(InvalidTableAddressError):
        write_rows(spark, file, ONE_ROW)
    with pytest.raises(InvalidTableAddressError):
        write_rows(spark, file / "below", ONE_ROW)
    assert file.read_text() == "x"


@pytest.mark.parametrize(
    ("source", "error", "match"),
    sample_every(
        2,
        [
            (Source(format="csv", path="{tmp}/none.csv"), SourceError, "none.csv"),
            (Source(format="parquet", path="{tmp}/none/*.parquet"), SourceError, "none"),
            (Source(format="nope", path="{tmp}"), SourceError, "nope"),
            (Source(format="parquet", path="{tmp}/broken.parquet"), SourceError, "broken.parquet"),
            (Source(format="parquet", path="{tmp}/broken.parquet", schema="id INT"), SourceError, "broken.parquet"),
            (Source(format="csv", path="{tmp}/a.csv", schema="id INT,"), InvalidRequestError, "DDL"),
            (
                Source(format="csv", path="{tmp}/a.csv", schema="id INT", options={"mode": "FAILFAST"}),
                SourceError,
                "a.csv",
            ),
            (Source(format="parquet", path="nofs://x/y"), SourceError, "nofs"),
            (Source(format="delta", path="{tmp}"), TableNotFoundError, "{tmp}"),
            (Source(format="delta", path="{tmp}/t", version_as_of=7), VersionNotFoundError, "7"),
            (
                Source(format="delta", path="{tmp}/t", timestamp_as_of="1999-01-01T00:00:00Z"),
                TimestampOutOfRangeError,
                "oldest",
            ),
            (
                Source(format="delta", path="{tmp}/t", timestamp_as_of="2999-01-01T00:00:00Z"),
                TimestampOutOfRangeError,
                "future",
            ),
            (Source(format="delta", path="{tmp}/t", timestamp_as_of="yesterday"), InvalidRequestError, "yesterday"),
            (Source(format="delta", path="{tmp}/t@v1", version_as_of=1), InvalidRequestError, "more than one"),
        ],
    ),
)
def test_a_source_that_cannot_be_read_is_rejected(spark, table, tmp_path, source, error, match):
    (tmp_path / "broken.parquet").write_bytes(b"no parquet at all")
    (tmp_path / "a.csv").write_text("1\nx\n")
    sources = {"source": dataclasses.replace(source, path=source.path.replace("{tmp}", str(tmp_path)))}
    rejection = assert_rejected(spark, table, error, match.replace("{tmp}", str(tmp_path)), query=None, sources=sources)
    assert "calling o" not in rejection.problem, "the problem must not contain the text of a Py4J error"
    with pytest.raises(error):
        write_rows(spark, tmp_path / "new" / "t", sources=sources)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("query", "error", "match"),
    sample_every(
        2,
        [
            ("SELEC 1", InvalidRequestError, "The query is wrong"),
            ("SELECT id FROM", InvalidRequestError, "The query is wrong"),
            ("SELECT nope FROM source", InvalidRequestError, "nope"),
            ("SELECT * FROM nowhere", InvalidRequestError, "nowhere"),
            ("SELECT CAST(1 DIV (id - id) AS INT) AS id FROM range(3)", SourceError, "DIVIDE_BY_ZERO"),
            ("SELECT CAST('x' || id AS INT) AS id FROM range(3)", SourceError, "CAST_INVALID_INPUT"),
            ("SELECT CAST(id + 2147483647 AS INT) AS id FROM range(3)", SourceError, "OVERFLOW"),
            ("SELECT array(1)[CAST(id AS INT)] AS id FROM range(3)", SourceError, "INVALID_ARRAY_INDEX"),
            ("SELECT CAST(to_date('x' || id) AS STRING) AS d FROM range(3)", SourceError, "CANNOT_PARSE|CAST_INVALID"),
        ],
    ),
)
def test_a_query_that_fails_is_rejected(spark, table, tmp_path, query, error, match):
    assert_rejected(spark, table, error, match, query=query, merge_schema=True)
    with pytest.raises(error):
        write_rows(spark, tmp_path / "new" / "t", query)
    assert not (tmp_path / "new").exists()
    assert not spark.catalog.tableExists("source")


@pytest.fixture
def readable_folder():
    """A folder that every user can read and only root can write. The test may change its user by `os.seteuid`."""
    if os.geteuid() != 0:
        pytest.skip("only root can change its user")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    os.seteuid(0)
    shutil.rmtree(folder)


def test_a_folder_without_write_permission_raises_a_permission_error(spark, readable_folder):
    write_rows(spark, readable_folder / "t", ONE_ROW)
    content_before = folder_content(readable_folder)
    os.seteuid(NOBODY)
    for table in (readable_folder / "t", readable_folder / "new"):
        with pytest.raises(StoragePermissionError, match="ermission") as error_info:
            write_rows(spark, table, ONE_ROW)
        assert "access" in error_info.value.remedy and not error_info.value.retryable
    os.seteuid(0)
    assert folder_content(readable_folder) == content_before


def test_a_log_without_write_permission_raises_a_permission_error_and_no_file_remains(
    spark, readable_folder, monkeypatch
):
    """Spark has written the files before the commit fails, and the write removes them."""
    write_if_absent = LocalLogStore.write_if_absent

    def write_as_nobody(*arguments):
        os.seteuid(NOBODY)
        try:
            return write_if_absent(*arguments)
        finally:
            os.seteuid(0)

    write_rows(spark, readable_folder / "t", ONE_ROW)
    content_before = folder_content(readable_folder)
    monkeypatch.setattr(LocalLogStore, "write_if_absent", write_as_nobody)
    with pytest.raises(StoragePermissionError, match="ermission"):
        write_rows(spark, readable_folder / "t", ONE_ROW)
    assert folder_content(readable_folder) == content_before


def test_a_file_system_without_hard_links_is_rejected(spark, tmp_path, monkeypatch):
    def raise_permission_error(*_arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", raise_permission_error)
    with pytest.raises(UnsupportedStorageError, match="hard links"):
        write_rows(spark, tmp_path / "new" / "t", ONE_ROW)
    assert not (tmp_path / "new").exists()


def test_a_write_that_loses_a_race_removes_its_files(spark, table, monkeypatch):
    """Another writer commits between the plan of the overwrite and its commit."""
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id", "77")))
    with pytest.raises(ConcurrentModificationException, match="version 3") as error_info:
        write_rows(spark, table, values("id", "88"), mode="overwrite", conflict_retries=0)
    assert error_info.value.retryable
    assert sorted(rows(table)) == [(1,), (1,), (1,), (77,)]
    assert data_files(table) == {add["path"] for version in range(4) for add in actions_of(table, version)["add"]}
    assert {f.name for f in table.iterdir() if f.is_dir()} == {"_delta_log"}


def test_two_concurrent_first_writes_create_one_table(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    rival_query = values("id, day", "77, 'x'")
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, rival_query, partition_by=("day",)))
    with pytest.raises(ConcurrentModificationException, match="version 0"):
        write_rows(spark, table, values("id, day", "88, 'x'"), partition_by=("day",), conflict_retries=0)
    assert rows(table) == [(77, "x")]
    assert len(data_files(table)) == 1
