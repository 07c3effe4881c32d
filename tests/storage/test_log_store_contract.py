"""The contract of a log store, on which the protocol relies, tested on each storage.

The log store of workers is read-only, so an S3 client writes its files.
"""

from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from s3fs import S3FileSystem

from deltalite.columnar.parquet.files import read_footers
from deltalite.storage.fsspec_store import FsspecLogStore
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from tests.support.remote import BUCKET

NAME = "_delta_log/00000000000000000000.json"
LARGE = os.urandom(1024) * 3000


class FsspecStoreWithWriter(FsspecLogStore):
    """The read-only store of workers, with an S3 client that writes."""

    def __init__(self, s3, folder):
        super().__init__(f"s3://{BUCKET}/{folder}", S3FileSystem(**s3.fsspec_options))
        self._client, self._folder = s3.client, folder

    def write_if_absent(self, name, data):
        try:
            self.write(name, data, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
            return False
        return True

    def write(self, name, data, **options):
        self._client.put_object(Bucket=BUCKET, Key=f"{self._folder}/{name}", Body=data, **options)

    def delete(self, name):
        self._client.delete_object(Bucket=BUCKET, Key=f"{self._folder}/{name}")


@pytest.fixture(
    params=[
        "local",
        "memory",
        "fsspec",
        *(pytest.param(kind, marks=pytest.mark.spark) for kind in ("file", "hdfs", "s3a")),
    ]
)
def store(request, tmp_path):
    """An empty table on each storage. `file` is Hadoop's own local file system, which only one writer may use."""
    match request.param:
        case "local":
            return LocalLogStore(str(tmp_path / "t"))
        case "memory":
            return MemoryLogStore()
        case "fsspec":
            return FsspecStoreWithWriter(request.getfixturevalue("s3"), f"{uuid.uuid4()}/t")
        case kind:
            from deltalite.spark.hadoop.store import HadoopLogStore

            root = str(tmp_path) if kind == "file" else request.getfixturevalue(kind)
            spark = request.getfixturevalue("spark")
            return HadoopLogStore(spark, f"{root}/{uuid.uuid4()}", single_writer=kind == "file")


@pytest.fixture
def multi_writer_store(store, request):
    """A store whose storage lets exactly one of several concurrent writers create a file."""
    if request.node.callspec.params["store"] in ("file", "memory", "fsspec"):
        pytest.skip("This store does not support concurrent writers.")
    return store


@pytest.fixture
def writer(store, request):
    """The store of another process for the same table."""
    if request.node.callspec.params["store"] not in ("file", "hdfs", "s3a"):
        return store
    return type(store)(request.getfixturevalue("spark"), store.root, single_writer=True)


@pytest.mark.parametrize("first", [b"", b"first", b"a longer first content"])
def test_a_read_after_a_listing_returns_the_newer_content_of_another_writer(store, writer, first):
    writer.write(NAME, first)
    assert [file.name for file in store.list_from("_delta_log/")] == [NAME]
    writer.write(NAME, b"second content")
    assert store.read(NAME) == b"second content"
    writer.delete(NAME)
    assert store.read(NAME) is None


def test_the_first_put_wins_and_the_second_changes_nothing(store):
    assert store.write_if_absent(NAME, b"one") is True
    assert store.write_if_absent(NAME, b"two") is False
    assert store.read(NAME) == b"one"
    assert [file.name for file in store.list_from("_delta_log/")] == [NAME]


def test_exactly_one_of_several_concurrent_writers_creates_each_file(multi_writer_store):
    contents, all_started = (b"a", b"b", b"c", b"d"), Barrier(4)

    def put(content):
        """Try to create twelve files, and return the numbers of the created ones."""
        all_started.wait()
        return [
            number
            for number in range(12)
            if multi_writer_store.write_if_absent(f"_delta_log/{number:020d}.json", content * 10_000)
        ]

    with ThreadPoolExecutor(4) as pool:
        created_numbers = dict(zip(contents, pool.map(put, contents), strict=True))
    assert sorted(number for numbers in created_numbers.values() for number in numbers) == list(range(12))
    for content, numbers in created_numbers.items():
        for number in numbers:
            assert multi_writer_store.read(f"_delta_log/{number:020d}.json") == content * 10_000
    assert len(list(multi_writer_store.list_from("_delta_log/"))) == 12


def test_a_missing_file_is_read_as_none_and_a_missing_folder_is_listed_as_empty(store):
    assert store.read(NAME) is None and store.read_start(NAME, 9) is None
    assert list(store.list_from(NAME)) == []
    with pytest.raises(FileNotFoundError), store.open(NAME):
        pass


def test_write_replaces_a_file_and_delete_removes_it(store):
    store.write("a/b", b"1")
    store.write("a/b", b"2")
    assert store.read("a/b") == b"2"
    store.delete("a/b")
    store.delete("a/b")
    assert store.read("a/b") is None
    assert [file.name for file in store.list_from("a/")] == []


def test_a_listing_is_sorted_starts_at_the_given_name_and_contains_only_files(store):
    for name in ("_delta_log/2", "_delta_log/10", "_delta_log/1", "_delta_log/sub/3", "_delta_log/a b%20ü=+", "2"):
        store.write(name, b"xy")
    listed_files = list(store.list_from("_delta_log/10"))
    assert [file.name for file in listed_files] == ["_delta_log/10", "_delta_log/2", "_delta_log/a b%20ü=+"]
    assert all(file.size_bytes == 2 and file.modified_ms > 1_700_000_000_000 for file in listed_files)
    assert next(store.list_from("_delta_log/")).name == "_delta_log/1"
    assert store.read("_delta_log/a b%20ü=+") == b"xy"


def test_empty_and_large_files_are_read_unchanged(store):
    for name, data in (("empty", b""), ("large", LARGE)):
        assert store.write_if_absent(f"_delta_log/{name}", data) is True
        store.write(f"_delta_log/{name}-2", data)
        assert store.read(f"_delta_log/{name}") == data == store.read(f"_delta_log/{name}-2")


def test_the_start_of_a_file_has_at_most_the_requested_size(store):
    store.write(NAME, LARGE)
    assert [store.read_start(NAME, size) for size in (9, len(LARGE), len(LARGE) + 1)] == [LARGE[:9], LARGE, LARGE]
    store.write(NAME, b"")
    assert store.read_start(NAME, 9) == b""


def test_parquet_is_read_through_an_open_file(store):
    table = pa.table({"id": range(100_000), "text": [str(n) * 9 for n in range(100_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none", row_group_size=10_000)
    data = sink.getvalue().to_pybytes()
    assert len(data) > 4 * 1024 * 1024
    store.write("x.parquet", data)
    with store.open("x.parquet") as handle, pq.ParquetFile(handle) as file:
        assert handle.size() == len(data)
        assert file.read_row_group(3).equals(table.slice(30_000, 10_000))
        assert file.read().equals(table)
    assert [footer.num_rows for footer in read_footers(store, ["x.parquet"] * 10)] == [100_000] * 10
