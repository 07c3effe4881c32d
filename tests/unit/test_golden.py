"""Tables of other engines give the expected rows, or an error that names the unsupported feature."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.errors import (
    CorruptDataFileError,
    CorruptLogError,
    DeltaLiteError,
    TableError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.support.golden import assert_same_rows, expected_metadata, one_per_feature, table_names, unsupported_part

READABLE_LOGS = {"read", "log-only"}
# Earlier versions that the library rejects, each with the reason.
REJECTED_VERSIONS = {
    ("delta-rs/delta-live-table", 0): "its metaData has no schemaString, which the protocol requires",
}


def open_table(golden, name, version=None):
    return DeltaTable(str(golden / "tables" / name), version=version)


@pytest.mark.parametrize("name", one_per_feature("read"))
def test_a_table_has_the_rows_that_every_reader_sees(golden, name):
    table = open_table(golden, name)
    assert table.version == expected_metadata(golden, name)["version"]
    assert_same_rows(table.to_arrow(), pq.read_table(golden / "expected" / name / "data.parquet"))


def file_facts(row, path, size):
    return path, size, tuple(sorted((k, v or None) for k, v in dict(row["partition_values"] or ()).items()))


@pytest.mark.parametrize("name", table_names(*READABLE_LOGS))
def test_a_log_has_the_files_protocol_and_schema_that_every_reader_sees(golden, name):
    meta, table = expected_metadata(golden, name), open_table(golden, name)
    expected_file = golden / "expected" / name / "files.json"
    expected = json.loads(expected_file.read_text()) if expected_file.is_file() else []
    assert len(expected) == meta["num_files"]
    live_files = table.files().to_pylist()
    assert Counter(file_facts(row, row["path"], row["size_bytes"]) for row in live_files) == Counter(
        file_facts(row, row["path"], row["size"]) for row in expected
    )
    assert (table.version, table.protocol.min_reader_version, table.protocol.min_writer_version) == (
        meta["version"], meta["min_reader"], meta["min_writer"],
    )  # fmt: skip
    assert table.schema.names == [f["name"] for f in meta["schema"]["fields"]]
    detail = table.detail()
    assert detail["partitionColumns"] == meta["partition_columns"]
    assert (detail["numFiles"], detail["sizeInBytes"]) == (len(expected), sum(row["size"] or 0 for row in expected))
    history = table.history()
    assert [entry["version"] for entry in history] == sorted((e["version"] for e in history), reverse=True)


@pytest.mark.parametrize("name", table_names("log-only"))
def test_missing_data_files_never_give_fewer_rows(golden, name):
    table = open_table(golden, name)
    if table.files().num_rows:
        with pytest.raises(CorruptDataFileError):
            table.to_arrow()


@pytest.mark.slow
@pytest.mark.parametrize("name", one_per_feature("read"))
def test_earlier_versions_have_their_files_and_rows(golden, name):
    folder = golden / "expected" / name
    expected_file = folder / "versions.json"
    for entry in json.loads(expected_file.read_text()) if expected_file.is_file() else ():
        expected = entry.get("replay") or entry
        if expected.get("files") is None or "error" in expected:
            continue  # the other readers gave no answer
        if (name, entry["version"]) in REJECTED_VERSIONS:
            with pytest.raises(CorruptLogError, match="`schemaString` is missing"):
                open_table(golden, name, version=entry["version"])
            continue
        try:
            table = open_table(golden, name, version=entry["version"])
        except VersionNotFoundError:
            continue  # a cleanup has deleted this version from the log
        assert table.files().num_rows == expected["files"], entry
        if expected["rows"] is not None:
            assert table.to_arrow(columns=[]).num_rows == expected["rows"], entry
        rows_file = folder / "versions" / f"{entry['version']}.parquet"
        if rows_file.is_file():
            assert_same_rows(table.to_arrow(), pq.read_table(rows_file))


@pytest.mark.parametrize("name", table_names("must-error"))
def test_an_invalid_table_raises_a_typed_error_and_gives_no_rows(golden, name):
    with pytest.raises(TableError) as caught:
        open_table(golden, name).to_arrow()
    assert caught.value.remedy and not caught.value.retryable


@pytest.mark.parametrize("name", table_names("must-refuse"))
def test_the_error_names_the_unsupported_protocol_feature(golden, name):
    with pytest.raises(UnsupportedFeatureError) as caught:
        open_table(golden, name).to_arrow()
    assert unsupported_part(golden, name) in caught.value.problem


@pytest.mark.parametrize("name", table_names("either", "read-count-only"))
def test_a_table_on_which_readers_differ_gives_the_stated_rows_or_an_error(golden, name):
    try:
        rows = open_table(golden, name).to_arrow()
    except DeltaLiteError:
        return
    rows_file = golden / "expected" / name / "data.parquet"
    assert rows.num_rows == expected_metadata(golden, name)["num_rows"]
    if rows_file.is_file():
        assert_same_rows(rows, pq.read_table(rows_file))
