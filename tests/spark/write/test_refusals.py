"""Invalid input gives a typed error with a remedy, and the folder stays the same in every byte."""

from __future__ import annotations

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
from tests.support.loops import one_in
from tests.support.racing import run_before_commits
from tests.support.tables import commit, data_files, everything, rows, values, write_rows

pytestmark = pytest.mark.spark

ONE = values("id", "1")


@pytest.fixture
def table(spark, tmp_path):
    """Three versions of one row each."""
    table = tmp_path / "t"
    for _ in range(3):
        write_rows(spark, table, ONE)
    return table


def log_file(table, version, ending="json"):
    return table / "_delta_log" / f"{version:020}.{ending}"


def assert_rejected(spark, table, error, match, query=ONE, **options):
    """Assert that the write is rejected and changes nothing."""
    before = everything(table)
    with pytest.raises(error, match=match) as caught:
        write_rows(spark, table, query, **options)
    assert caught.value.remedy and len(caught.value.remedy) > 10
    assert everything(table) == before
    return caught.value


def test_a_corrupt_log_is_rejected(spark, table):
    good = log_file(table, 1).read_text()
    log_file(table, 1).write_text(good[: len(good) // 2])
    assert_rejected(spark, table, CorruptLogError, f"{1:020}.json")
    log_file(table, 1).unlink()
    assert_rejected(spark, table, VersionGapError, "1")
    log_file(table, 1).write_text(good)
    write_rows(spark, table, ONE)
    assert len(rows(table)) == 4


def test_a_corrupt_checkpoint_is_ignored_if_the_commits_exist(spark, table):
    for _ in range(3, 12):
        write_rows(spark, table, ONE)
    checkpoint = log_file(table, 10, "checkpoint.parquet")
    whole = checkpoint.read_bytes()
    for broken in (b"", b"PAR1", whole[: len(whole) // 2] + b"x" * (len(whole) // 2)):
        checkpoint.write_bytes(broken)
        assert write_rows(spark, table, ONE).committed
    checkpoint.unlink()
    assert write_rows(spark, table, ONE).version == 15
    assert len(rows(table)) == 16
    for version in range(3):
        log_file(table, version).unlink()
    checkpoint.write_bytes(b"PAR1")
    assert_rejected(spark, table, (CorruptCheckpointError, VersionGapError, CorruptLogError), "10|0")
    checkpoint.write_bytes(whole)
    write_rows(spark, table, ONE)
    assert len(rows(table)) == 17


@pytest.mark.parametrize(
    ("protocol", "named"),
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
def test_an_unsupported_protocol_is_rejected_by_name(spark, table, protocol, named):
    log_file(table, 3).write_text(json.dumps({"protocol": protocol}))
    for mode in ("append", "overwrite"):
        assert_rejected(spark, table, UnsupportedFeatureError, named, mode=mode)
    assert_rejected(spark, table, UnsupportedFeatureError, named, mode="ignore", run="a")


@pytest.mark.parametrize("inside", ["stray.parquet", "day=2026-01-01/part-0.parquet"])
def test_a_folder_with_other_files_is_not_used_for_a_new_table(spark, tmp_path, inside):
    table = tmp_path / "lake"
    (table / inside).parent.mkdir(parents=True)
    (table / inside).write_bytes(b"PAR1")
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
    with pytest.raises(error) as caught:
        write_rows(spark, address, ONE)
    assert caught.value.remedy


def test_a_file_at_the_address_of_the_table_is_rejected(spark, tmp_path):
    file = tmp_path / "t"
    file.write_text("x")
    with pytest.raises(InvalidTableAddressError):
        write_rows(spark, file, ONE)
    with pytest.raises(InvalidTableAddressError):
        write_rows(spark, file / "below", ONE)
    assert file.read_text() == "x"


@pytest.mark.parametrize(
    ("source", "error", "match"),
    one_in(
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
    source_fields = json.loads(json.dumps({"path": source.path}).replace("{tmp}", str(tmp_path)))
    made = Source(
        format=source.format,
        schema=source.schema,
        options=source.options,
        version_as_of=source.version_as_of,
        timestamp_as_of=source.timestamp_as_of,
        **source_fields,
    )
    caught = assert_rejected(
        spark, table, error, match.replace("{tmp}", str(tmp_path)), query=None, sources={"source": made}
    )
    assert "calling o" not in caught.problem
    with pytest.raises(error):
        write_rows(spark, tmp_path / "new" / "t", sources={"source": made})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("query", "error", "match"),
    one_in(
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
def nobody():
    """A folder that every user can read. During the test, this process has no rights of root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    os.seteuid(0)
    shutil.rmtree(folder)


def test_a_folder_without_write_permission_is_a_typed_error(spark, nobody):
    write_rows(spark, nobody / "t", ONE)
    before = everything(nobody)
    os.seteuid(65534)
    for table in (nobody / "t", nobody / "new"):
        with pytest.raises(StoragePermissionError, match="ermission") as caught:
            write_rows(spark, table, ONE)
        assert "access" in caught.value.remedy and not caught.value.retryable
    os.seteuid(0)
    assert everything(nobody) == before


def test_a_log_without_write_permission_is_a_typed_error_and_no_file_remains(spark, nobody, monkeypatch):
    """Spark has written the files before the commit fails, and the write removes them."""
    original = LocalLogStore.write_if_absent

    def as_nobody(*arguments):
        os.seteuid(65534)
        try:
            return original(*arguments)
        finally:
            os.seteuid(0)

    write_rows(spark, nobody / "t", ONE)
    before = everything(nobody)
    monkeypatch.setattr(LocalLogStore, "write_if_absent", as_nobody)
    with pytest.raises(StoragePermissionError, match="ermission"):
        write_rows(spark, nobody / "t", ONE)
    assert everything(nobody) == before


def test_a_file_system_without_hard_links_is_rejected(spark, tmp_path, monkeypatch):
    def no_links(*_arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(UnsupportedStorageError, match="hard links"):
        write_rows(spark, tmp_path / "new" / "t", ONE)
    assert not (tmp_path / "new").exists()


def test_a_write_that_loses_a_race_removes_its_files(spark, table, monkeypatch):
    """Another writer commits while Spark writes the rows of an overwrite."""
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id", "77")))
    with pytest.raises(ConcurrentModificationException, match="version 3") as caught:
        write_rows(spark, table, values("id", "88"), mode="overwrite", conflict_retries=0)
    assert caught.value.retryable
    assert sorted(rows(table)) == [(1,), (1,), (1,), (77,)]
    assert data_files(table) == {add["path"] for version in range(4) for add in commit(table, version)["add"]}
    assert {f.name for f in table.iterdir() if f.is_dir()} == {"_delta_log"}


def test_two_concurrent_first_writes_create_one_table(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    first_write = values("id, day", "77, 'x'")
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, first_write, partition_by=("day",)))
    with pytest.raises(ConcurrentModificationException, match="version 0"):
        write_rows(spark, table, values("id, day", "88, 'x'"), partition_by=("day",), conflict_retries=0)
    assert rows(table) == [(77, "x")]
    assert len(data_files(table)) == 1
