"""An address of a table has one canonical location, and an invalid address is rejected."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltalite.errors import InvalidRequestError, InvalidTableAddressError, UnsupportedStorageError
from deltalite.requests.moments import parse_moment_ms
from deltalite.storage.local import LocalLogStore
from deltalite.storage.locations import contain_one_another, is_same_table, parse_location, resolve_path
from deltalite.storage.opening import open_store
from deltalite.storage.versioned_path import VersionedPath, parse_versioned_path, resolve_version


@pytest.mark.parametrize(
    ("address", "scheme", "path"),
    [
        ("/lake/orders", "file", "/lake/orders"),
        ("/lake//orders/", "file", "/lake/orders"),
        ("/lake/x/../orders", "file", "/lake/orders"),
        ("file:/lake/orders", "file", "/lake/orders"),
        ("file:///lake/orders/", "file", "/lake/orders"),
        ("file://localhost/lake/orders", "file", "/lake/orders"),
        ("file:///lake/a%20b", "file", "/lake/a b"),
        ("/lake/a%20b", "file", "/lake/a%20b"),
        ("/lake/a b=ü", "file", "/lake/a b=ü"),
        ("orders", "file", os.path.join(os.getcwd(), "orders")),
        ("~/orders", "file", os.path.join(os.path.expanduser("~"), "orders")),
        ("S3://Bucket/Orders/", "s3", "s3://Bucket/Orders"),
        ("hdfs:///lake/orders", "hdfs", "hdfs:///lake/orders"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss", "abfss://c@a.dfs.core.windows.net/t"),
    ],
)
def test_an_address_has_one_canonical_location(address, scheme, path):
    location = parse_location(address)
    assert (location.scheme, location.path, location.is_local) == (scheme, path, scheme == "file")


@pytest.mark.parametrize(
    "address",
    [
        "", "  ", " /lake", "/lake\n", "/la\x00ke", "s3://", "hdfs://", "hdfs:///", "s3:/b/k", "file:", "file:lake", "file://host/lake",
        "s3://b/k?v=1", "s3://b/k#f", "/lake/{{ ds }}", "{% if x %}",
    ],
)  # fmt: skip
def test_an_invalid_address_is_rejected_with_an_example(address):
    with pytest.raises(InvalidTableAddressError) as caught:
        parse_location(address)
    assert repr(address) in str(caught.value) and caught.value.remedy


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/lake/t", "a b/x", "/lake/t/a b/x"),
        ("/lake/t", "/other/x", "/other/x"),
        ("s3://lake/t", "day=1/x", "s3://lake/t/day=1/x"),
        ("s3://lake/t", "/other/x", "s3://lake/other/x"),
        ("s3://lake/t", "s3a://other/x", "s3a://other/x"),
        ("s3://lake/t", "file:///lake/x", "/lake/x"),
        ("hdfs:///lake/t", "/x", "hdfs:///x"),
    ],
)
def test_a_path_of_the_log_is_relative_to_the_table_or_absolute(root, path, expected):
    assert resolve_path(root, path) == expected


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("s3://lake/t", "s3a://lake/t/", True),
        ("S3N://lake/t", "s3://lake/t", True),
        ("gcs://lake/t", "gs://lake/t", True),
        ("s3://lake/t", "s3://lake/T", False),
        ("s3://lake/t", "gs://lake/t", False),
        ("hdfs://nn/t", "/t", False),
    ],
)
def test_several_schemes_may_name_one_storage(first, second, is_same):
    assert is_same_table(first, second) is is_same


@pytest.mark.parametrize(
    ("address", "other", "expected"),
    [
        ("/lake/a", "/lake/a", True),
        ("/lake/a", "/lake/a/b/", True),
        ("/lake/ab", "/lake/a", False),
        ("s3://bucket/a", "s3://bucket/a/b", True),
        ("s3://bucket/a", "/bucket/a", False),
    ],
)
def test_a_folder_contains_itself_and_its_folders(address, other, expected):
    assert contain_one_another(address, other) is contain_one_another(other, address) is expected


def test_a_link_and_its_target_contain_one_another(tmp_path):
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table")
    assert contain_one_another(str(tmp_path / "link"), str(tmp_path / "table"))
    assert contain_one_another(str(tmp_path / "link" / "new"), str(tmp_path / "table"))
    assert not contain_one_another(str(tmp_path / "link"), str(tmp_path / "other"))


@pytest.mark.usefixtures("without_gcsfs")
def test_storage_without_a_client_is_rejected(tmp_path):
    assert open_store(f"file://{tmp_path}/").root == str(tmp_path)
    with pytest.raises(UnsupportedStorageError, match=r"'gs'.*airflow-provider-deltalite\[gcs\]"):
        open_store("gs://lake/orders")
    with pytest.raises(UnsupportedStorageError, match=r"'nowhere'.*Protocol not known"):
        open_store("nowhere://lake/orders")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/t", VersionedPath(path="/t")),
        ("/t@v3", VersionedPath(path="/t", version=3)),
        ("/t@V03/", VersionedPath(path="/t", version=3)),
        ("/a@v1/t", VersionedPath(path="/a@v1/t")),
        ("/t@v", VersionedPath(path="/t@v")),
        ("/t@v-1", VersionedPath(path="/t@v-1")),
        ("/me@host", VersionedPath(path="/me@host")),
        ("/t@20260101000000123", VersionedPath(path="/t", timestamp_ms=1767225600123)),
        ("/t@2026010100000012", VersionedPath(path="/t@2026010100000012")),
        ("s3://user@b/t@v7", VersionedPath(path="s3://user@b/t", version=7)),
    ],
)
def test_a_version_or_a_time_follows_the_last_at_sign(address, expected):
    assert parse_versioned_path(address) == expected


def test_digits_that_are_not_a_valid_time_are_rejected():
    with pytest.raises(InvalidRequestError, match="Invalid time"):
        parse_versioned_path("/t@20261301000000000")


@pytest.mark.parametrize(
    ("address", "version", "timestamp"),
    [("/t@v3", 4, None), ("/t@v3", None, "2026-01-01"), ("/t@20260101000000123", 1, None), ("/t", 1, "2026-01-01")],
)
def test_an_address_and_a_parameter_that_both_name_a_version_are_rejected(address, version, timestamp):
    with pytest.raises(InvalidRequestError, match="more than one"):
        resolve_version(address, version, timestamp)


@pytest.mark.parametrize(
    "moment",
    [
        "2026-01-01T00:00:00.123Z", "2026-01-01 00:00:00.123", " 2026-01-01T02:00:00.123+02:00 ",
        datetime(2026, 1, 1, 0, 0, 0, 123_999),  # noqa: DTZ001
        datetime(2026, 1, 1, 1, 0, 0, 123_000, timezone(timedelta(hours=1))),
    ],
)  # fmt: skip
def test_a_time_without_a_zone_is_utc_and_is_truncated_to_milliseconds(moment):
    assert resolve_version("/t", None, moment).timestamp_ms == 1767225600123


@pytest.mark.parametrize(
    ("version", "timestamp", "problem"),
    [
        ("0", None, "version is '0'.*int"),
        (True, None, "version is True.*int"),
        (1.0, None, "version is 1.0.*int"),
        (None, 5, "timestamp is 5.*datetime"),
        (None, date(2026, 1, 1), r"timestamp is datetime.date\(2026, 1, 1\).*datetime"),
    ],
)
def test_a_version_or_time_of_another_type_is_rejected(version, timestamp, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        resolve_version("/t", version, timestamp)


def test_a_text_that_is_not_a_time_is_rejected():
    with pytest.raises(InvalidRequestError, match="'soon'"):
        resolve_version("/t", None, "soon")


@given(milliseconds=st.integers(0, 4_102_444_800_000))
@example(milliseconds=269105823409)  # the float of its seconds is less than the exact number
def test_a_time_of_the_history_parses_to_the_same_millisecond(milliseconds):
    assert parse_moment_ms(datetime.fromtimestamp(milliseconds / 1000, tz=UTC)) == milliseconds


@pytest.mark.parametrize("path", ["s3://b/x.parquet", "abfss://c@a/x.parquet"])
def test_a_path_on_another_storage_is_not_a_missing_file(tmp_path, path):
    with pytest.raises(UnsupportedStorageError, match=path):
        LocalLogStore(str(tmp_path)).open(path)


@pytest.mark.parametrize("address", [None, 5, b"/lake"])
def test_an_address_that_is_not_a_text_is_rejected(address):
    with pytest.raises(InvalidTableAddressError, match="not text"):
        parse_versioned_path(address)


@pytest.mark.parametrize("address", ["s3://key:planted-secret@bucket/t", "hdfs://u:planted-secret@nn/t"])
def test_an_address_with_a_password_is_rejected_and_the_error_hides_it(address):
    with pytest.raises(InvalidTableAddressError, match="contains a password") as caught:
        parse_location(address)
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize("address", ["abfss://container@lake.dfs.core.windows.net/t", "s3://bucket/a:b@c/t", "/a:b@c"])
def test_an_at_sign_alone_is_not_a_password(address):
    assert parse_location(address).path == address
