"""A folder of Parquet files becomes a table: its commit and statistics, repeated runs, and concurrent writers."""

from __future__ import annotations

import os
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite import DeltaTable
from deltalite.commands.convert import command
from deltalite.commands.convert import files as files_module
from deltalite.errors import (
    SourceError,
)
from deltalite.inspection.verify import verify
from deltalite.requests import RunIdentity
from deltalite.storage.local import LocalLogStore
from tests.support.fuzzing import examples
from tests.support.tables import actions_of
from tests.unit.builders import newest_version
from tests.unit.commands.convert.converting import (
    RUN_IDENTITY,
    assert_untouched,
    convert_folder,
    rows,
    rows_by_delta_rs,
    stats_by_path,
    write_parquet,
)


def test_a_folder_becomes_a_table_in_one_commit_with_statistics(folder):
    write_parquet(folder, "a.parquet", {"id": [1, 2], "name": ["x", None]})
    write_parquet(folder, "sub folder/b%41.snappy", {"id": [3], "name": ["y"]})
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*.*")}
    result = convert_folder(folder, identity=RUN_IDENTITY, user_metadata="why")
    assert rows(folder, "id", "name") == rows_by_delta_rs(folder, "id", "name") == [(1, "x"), (2, None), (3, "y")]
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert (result.operation, result.version, result.read_version, result.committed) == ("CONVERT", 0, None, True)
    assert result.metrics["numConvertedFiles"] == 2
    assert (result.metrics["numConvertedRows"], result.metrics["convertedFilesSize"]) == (
        3, sum(file.stat().st_size for file in before)
    )  # fmt: skip
    assert stats_by_path(folder)["a.parquet"] == {
        "numRecords": 2, "minValues": {"id": 1, "name": "x"}, "maxValues": {"id": 2, "name": "x"},
        "nullCount": {"id": 0, "name": 1},
    }  # fmt: skip
    assert "sub%20folder/b%2541.snappy" in stats_by_path(folder)
    (entry,) = DeltaTable(str(folder)).history()
    assert entry["operationParameters"] == {
        "numFiles": 2, "partitionedBy": "[]", "collectStats": True, "sourceFormat": "parquet"
    }  # fmt: skip
    assert verify(LocalLogStore(str(folder))).findings == ()


def test_a_second_run_commits_only_its_transaction_and_a_retry_commits_nothing(folder):
    write_parquet(folder, "a.parquet", {"id": [1]})
    convert_folder(folder, identity=RUN_IDENTITY)
    write_parquet(folder, "late.parquet", {"id": [2]})
    retried = convert_folder(folder, identity=RUN_IDENTITY)
    assert (retried.skipped, retried.version) == (True, 0)
    second_run = convert_folder(folder, identity=RunIdentity(app_id="other"))
    assert (second_run.committed, second_run.version, second_run.metrics["numConvertedFiles"]) == (True, 1, 0)
    assert actions_of(folder, 1)["add"] == []
    result_without_run = convert_folder(folder)
    assert (result_without_run.committed, result_without_run.version) == (False, 1)
    assert rows(folder, "id") == [(1,)]


def test_hidden_names_empty_files_and_files_without_rows_are_not_added(folder):
    write_parquet(folder, "a.parquet", {"id": [1]})
    write_parquet(folder, "no rows.parquet", {"id": pa.array([], pa.int64()), "more": pa.array([], pa.string())})
    for name in ("_SUCCESS", ".a.parquet.crc", "_temporary/0/part.parquet", "_old/b.parquet", ".x/c.parquet"):
        write_parquet(folder, name, {"hidden": [1]})
    (folder / "b.parquet").touch()
    (folder / "c._COPYING_").write_bytes(b"x")
    result = convert_folder(folder)
    assert result.metrics["numConvertedFiles"] == 1
    assert [add["path"] for add in actions_of(folder, 0)["add"]] == ["a.parquet"]
    assert DeltaTable(str(folder)).schema.names == ["id", "more"]


def test_the_requested_properties_are_set_on_the_new_table(folder):
    write_parquet(folder, "1", {"a": [1], "b": [2]})
    write_parquet(folder, "2", {"a": [1], "b": [2], "with.dot": [3]})
    properties = {"mine": "1", "delta.enableChangeDataFeed": "true", "delta.dataSkippingStatsColumns": "b, `with.dot`"}
    convert_folder(folder, properties=properties)
    table = DeltaTable(str(folder))
    assert dict(table.metadata.configuration) == properties
    assert stats_by_path(folder)["1"]["minValues"] == {"b": 2}
    assert stats_by_path(folder)["2"]["minValues"] == {"b": 2, "with.dot": 3}
    assert sum(batch.num_rows for batch in table.changes(from_version=0)) == 2


def test_ambiguous_bounds_are_omitted(folder):
    write_parquet(folder, "nan", {"x": [1.0, float("nan")], "n": [1, 2]})
    julian = pa.schema([("d", pa.date32()), ("n", pa.int64())], {"org.apache.spark.version": "2.4.0"})
    pq.write_table(pa.table({"d": [date(1500, 1, 1)], "n": [1]}, schema=julian), folder / "old")
    convert_folder(folder)
    assert stats_by_path(folder)["nan"]["maxValues"] == {"n": 2}, "Arrow leaves NaN out of a maximum"
    assert stats_by_path(folder)["old"]["maxValues"] == {"n": 1}


@pytest.mark.parametrize(
    ("writer", "handles_nan"),
    [
        ("parquet-mr version 1.10.1 (build x)", True),
        ("parquet-mr version 1.9.0", False),
        ("parquet-mr compatible", False),
    ],
)
def test_bounds_of_floats_are_used_only_from_writers_that_handle_nan(folder, monkeypatch, writer, handles_nan):
    read_sized_footers = files_module.read_sized_footers

    class Footer:
        def __init__(self, footer):
            self._footer = footer
            self.created_by = writer

        def __getattr__(self, name):
            return getattr(self._footer, name)

    monkeypatch.setattr(
        files_module,
        "read_sized_footers",
        lambda *arguments: [(Footer(footer), *sizes) for footer, *sizes in read_sized_footers(*arguments)],
    )
    write_parquet(folder, "a", {"x": [1.0, 5.0], "n": [1, 2]})
    convert_folder(folder)
    assert stats_by_path(folder)["a"]["maxValues"] == ({"x": 5.0, "n": 2} if handles_nan else {"n": 2})


def test_a_conversion_fails_if_a_file_changes_meanwhile(folder, monkeypatch):
    file = write_parquet(folder, "a.parquet", {"id": [1]})
    listed_files = command.listed_files
    changes = {
        "grown": lambda: write_parquet(folder, "a.parquet", {"id": list(range(100))}),
        "new": lambda: write_parquet(folder, "b.parquet", {"id": [2]}),
        "gone": (folder / "b.parquet").unlink,
        "touched": lambda: os.utime(file, (1, 1)),
    }
    for change in changes.values():
        read = files_module.read_sized_footers

        def read_and_change(*arguments, change=change, read=read):
            footer = read(*arguments)
            change()
            return footer

        with monkeypatch.context() as patch:
            patch.setattr(files_module, "read_sized_footers", read_and_change)
            with pytest.raises(SourceError, match="changed while it was converted: a file such as"):
                convert_folder(folder)
    write_parquet(folder, "a.parquet", {"id": [1]})
    with monkeypatch.context() as patch:
        patch.setattr(command, "listed_files", lambda tree: (listed_files(tree), changes["grown"]())[0])
        with pytest.raises(SourceError, match=r"a.parquet of .* changed during the conversion, from \d+ to \d+ bytes"):
            convert_folder(folder)
    assert_untouched(folder)


def test_a_table_that_another_writer_creates_first_is_not_changed(folder, monkeypatch):
    write_parquet(folder, "a.parquet", {"id": [1]})
    check = command.check_unchanged

    def check_after_rival(*arguments):
        monkeypatch.setattr(command, "check_unchanged", check)
        convert_folder(folder, identity=RunIdentity(app_id="rival"))
        check(*arguments)

    monkeypatch.setattr(command, "check_unchanged", check_after_rival)
    result = convert_folder(folder, identity=RUN_IDENTITY)
    assert (result.version, result.metrics["numConvertedFiles"]) == (1, 0)
    assert rows(folder, "id") == [(1,)]


VALUES = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": st.floats(),
    "s": st.text(max_size=40),
    "d": st.dates(date(1, 1, 1)),
    "b": st.booleans(),
    "t": st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1)).map(lambda t: t.replace(tzinfo=ZoneInfo("UTC"), fold=0)),  # noqa: DTZ001
}
TYPES = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.date32(), "b": pa.bool_(),
         "t": pa.timestamp("us", "UTC")}  # fmt: skip
FILE_COLUMNS = st.fixed_dictionaries(
    {}, optional={name: st.lists(st.none() | v, min_size=3, max_size=3) for name, v in VALUES.items()}
)


@examples(30)
@given(files=st.lists(FILE_COLUMNS.filter(bool), min_size=1, max_size=4), int96=st.booleans())
def test_any_rows_are_the_same_from_the_table_and_from_its_files(tmp_path_factory, files, int96):
    folder = tmp_path_factory.mktemp("c") / "t"
    expected = []
    int96 = int96 and all(t is None or 1700 < t.year < 2200 for file in files for t in file.get("t", ()))
    for number, file in enumerate(files):
        columns = {name: pa.array(column, TYPES[name]) for name, column in file.items()}
        write_parquet(folder, f"{number}", columns, use_deprecated_int96_timestamps=int96)
        expected += [{name: column[index] for name, column in file.items()} for index in range(3)]
    convert_folder(folder)
    rows_read = DeltaTable(str(folder)).to_arrow().to_pylist()
    names = DeltaTable(str(folder)).schema.names
    assert sorted(map(repr, rows_read)) == sorted(repr({name: row.get(name) for name in names}) for row in expected)
    assert verify(LocalLogStore(str(folder))).findings == ()
    assert newest_version(LocalLogStore(str(folder))) == 0
