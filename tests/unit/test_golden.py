"""Tables that other engines wrote: read as they see them, or refused by name; never other rows."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.errors import (
    CorruptDataFileError,
    DeltaLiteError,
    TableError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

CHECKOUT = Path(__file__).resolve().parents[2]
# Where the fixture `golden` looks too; without it there is nothing to parametrise, and one test says so.
GOLDEN = Path(os.environ.get("DELTALITE_GOLDEN") or CHECKOUT.parent / "shared" / "golden")
MANIFEST = GOLDEN / "manifest.jsonl"
EXPECT = (
    {e["name"]: e["expect"] for e in map(json.loads, MANIFEST.read_text().splitlines())} if MANIFEST.is_file() else {}
)
MANY_ROWS = 50_000
LOG_IS_READ = {"read", "log-only"}
# A table feature beyond this release, or a partition beyond Python's calendar. Nothing else is ever refused.
REFUSED = (
    "table features that this release does not read", "V2 checkpoint", "which this release does not read",
    "partitions by the years 1 to 9999 only",
)  # fmt: skip


def names(*kinds):
    return sorted(name for name, expect in EXPECT.items() if expect in kinds) or ["golden tables are missing"]


def outcome(read):
    """What a table gives: a value, or None where it is refused by name."""
    try:
        return read()
    except UnsupportedFeatureError as error:
        if any(reason in error.problem for reason in REFUSED):
            return None
        raise


def plain(column):
    """Times as numbers, since some lie beyond Python's calendar; maps without an order."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).to_pylist()
    return [unordered(value, kind) for value in column.to_pylist()] if pa.types.is_nested(kind) else column.to_pylist()


def unordered(value, kind):
    if value is None:
        return None
    if pa.types.is_map(kind):
        return sorted(((unordered(k, kind.key_type), unordered(v, kind.item_type)) for k, v in value), key=repr)
    if pa.types.is_list(kind):
        return [unordered(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {f.name: unordered(value[f.name], f.type) for f in kind}
    return value


def rows_of(table):
    """The rows as a multiset; `repr` tells apart what `==` does not: -0.0 from 0.0, and NaN is itself."""
    columns = [plain(table[name]) for name in sorted(table.column_names)]
    return Counter(map(repr, zip(*columns, strict=True)))


def assert_same_rows(got, expected):
    assert got.column_names == expected.column_names
    simple = [f.name for f in expected.schema if not pa.types.is_nested(f.type) and not pa.types.is_null(f.type)]
    assert [got.schema.field(n).type for n in simple] == [expected.schema.field(n).type for n in simple]
    assert got.num_rows == expected.num_rows
    if got.num_rows > MANY_ROWS:  # of decimals only: Arrow compares them a hundred times faster
        order = [(n, "ascending") for n in simple]
        assert simple == expected.column_names and got.sort_by(order).cast(expected.schema).equals(
            expected.sort_by(order)
        )
        return
    assert rows_of(got) == rows_of(expected)


def meta_of(golden, name):
    return json.loads((golden / "expected" / name / "meta.json").read_text())


def opened(golden, name, **at):
    return DeltaTable(str(golden / "tables" / name), **at)


@pytest.mark.parametrize("name", names("read"))
def test_a_table_gives_the_rows_that_every_reader_sees(golden, name):
    table = outcome(lambda: opened(golden, name))
    rows = outcome(table.to_arrow) if table else None
    if rows is not None:
        assert table.version == meta_of(golden, name)["version"]
        assert_same_rows(rows, pq.read_table(golden / "expected" / name / "data.parquet"))


def file_facts(row, path, size):
    return path, size, tuple(sorted((k, v or None) for k, v in dict(row["partition_values"] or ()).items()))


@pytest.mark.parametrize("name", names(*LOG_IS_READ))
def test_a_log_gives_the_files_protocol_and_schema_that_every_reader_sees(golden, name):
    meta = meta_of(golden, name)
    table = outcome(lambda: opened(golden, name))
    if table is None:
        return
    listed = golden / "expected" / name / "files.json"
    expected = json.loads(listed.read_text()) if listed.is_file() else []
    assert len(expected) == meta["num_files"]
    got = table.files().to_pylist()
    assert Counter(file_facts(row, row["path"], row["size_bytes"]) for row in got) == Counter(
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


@pytest.mark.parametrize("name", names("log-only"))
def test_a_table_without_its_data_files_is_never_read_as_fewer_rows(golden, name):
    table = outcome(lambda: opened(golden, name))
    if table is not None and table.files().num_rows:
        with pytest.raises(CorruptDataFileError):
            table.to_arrow()


@pytest.mark.parametrize("name", names("read"))
def test_earlier_versions_give_their_own_files_and_rows(golden, name):
    folder = golden / "expected" / name
    listed = folder / "versions.json"
    for entry in json.loads(listed.read_text()) if listed.is_file() else ():
        truth = entry.get("replay") or entry
        if truth.get("files") is None or "error" in entry:
            continue
        try:
            table = outcome(lambda version=entry["version"]: opened(golden, name, version=version))
        except VersionNotFoundError:
            continue  # the log no longer reaches back
        if table is None:
            continue
        assert table.files().num_rows == truth["files"], entry
        rows = folder / "versions" / f"{entry['version']}.parquet"
        if rows.is_file():
            assert_same_rows(table.to_arrow(), pq.read_table(rows))


@pytest.mark.parametrize("name", names("must-error"))
def test_an_invalid_table_raises_a_typed_error_and_gives_no_rows(golden, name):
    with pytest.raises(TableError) as caught:
        opened(golden, name).to_arrow()
    assert caught.value.remedy and not caught.value.retryable


@pytest.mark.parametrize("name", names("must-refuse"))
def test_a_table_of_another_protocol_is_refused_by_name(golden, name):
    with pytest.raises(UnsupportedFeatureError) as caught:
        opened(golden, name).to_arrow()
    meta = meta_of(golden, name)
    named = [*(meta["reader_features"] or ()), "version", "type"]
    assert any(feature in caught.value.problem for feature in named)


@pytest.mark.parametrize("name", names("either", "read-count-only"))
def test_a_table_that_readers_differ_on_gives_the_stated_rows_or_an_error(golden, name):
    try:
        rows = opened(golden, name).to_arrow()
    except DeltaLiteError:
        return
    data = golden / "expected" / name / "data.parquet"
    assert rows.num_rows == meta_of(golden, name)["num_rows"]
    if data.is_file():
        assert_same_rows(rows, pq.read_table(data))


def test_what_is_refused_is_what_this_release_does_not_implement(golden):
    """The other tables are read: a feature that works cannot quietly become a refused one."""
    unsupported = {
        "deletionVectors", "columnMapping", "v2Checkpoint", "typeWidening", "typeWidening-preview", "variantType",
        "variantType-preview", "variantShredding-preview", "catalogOwned-preview",
    }  # fmt: skip
    surprising = []
    for name in names("read"):
        if outcome(lambda name=name: opened(golden, name)) is None:
            meta = meta_of(golden, name)
            features = set(meta["reader_features"] or ())
            mapped = (meta["configuration"] or {}).get("delta.columnMapping.mode", "none") != "none"
            void = '"void"' in json.dumps(meta["schema"])
            if not features & unsupported and not mapped and not void:
                surprising.append((name, meta["min_reader"], features))
    assert not surprising
