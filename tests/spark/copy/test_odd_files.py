"""Odd files: with a quarantine, each record is loaded or quarantined. Without one, an error names the file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import DeltaLiteError
from deltalite.requests import TableRequest
from tests.support.copying import copy_files, loaded_names, write_bytes
from tests.support.tables import folder_content, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SCHEMA = "id INT, name STRING, n STRUCT<a: INT>"


@dataclass(frozen=True)
class OddFile:
    """A file, and the numbers of its loaded and quarantined rows. `error` matches the error without a quarantine."""

    name: str
    content: str | bytes
    loaded_count: int
    quarantined_count: int
    error: str | None = None

    @property
    def file_format(self):
        return self.name.partition(".")[2]

    def write(self, folder):
        write_bytes(folder, self.name, self.content if isinstance(self.content, bytes) else self.content.encode())


NO_JSON, NO_VALUE = "is not a JSON object", "cannot be read"
FILES = [
    OddFile("other type in a member.json", '{"n":{"a":1}}\n{"n":{"a":"x"}}\n{"n":5}\n{"n":[1]}\n', 1, 3, NO_VALUE),
    OddFile("long.json", '{"id":5,"name":"' + "x" * 1_000_000 + '"}\n', 1, 0),
    OddFile("nul.json", '{"id":6,"name":"a\0b"}\n\0\0\n', 0, 2, NO_JSON),
    OddFile("mark.json", '\ufeff{"id":9}\n', 1, 0),
    OddFile("array.json", '[{"id":10},{"id":11}]\n', 2, 0),
    OddFile("array of lines.json", '[\n{"id":12},\n{"id":13}\n]\n', 2, 2, NO_JSON),
    OddFile("values.json", '{"id":1}{"id":2}\n{"id":3}\n', 1, 1, "has more text after its first JSON value"),
    OddFile("no byte.json", "", 0, 0),
    OddFile("no value.json", "{}\n{}\n", 2, 0),
    OddFile("numbers.json", '{"id":99999999999}\n{"id":1.5}\n{"id":"17"}\n{"id":1e2}\n{"id":7}\n', 1, 4, NO_VALUE),
    OddFile("blank.json", "\n \n", 0, 0),
    OddFile(
        "new names.json", '{"id":1,"x":1}\n{"id":2,"n":{"b":1}}\n{"id":3,"x":null}\n', 1, 2, "do not fit the table"
    ),
    OddFile("many.csv", "id,name\n1,a\n2,b,c\n", 1, 1, "many\\.csv"),
    OddFile("few.csv", "id,name\n1,a\n3\n", 1, 1, "few\\.csv"),
    OddFile("quote.csv", 'id,name\n4,"never closed\n5,x\n', 2, 0),
    OddFile("nul.csv", "id,name\n7,a\0b\n", 1, 0),
    OddFile("encoding.csv", "id,name\n8,x\n".encode("utf-16"), 0, 1, "encoding\\.csv is not text"),
    OddFile("mark.csv", "\ufeffid,name\n9,x\n", 1, 0),
    OddFile("no byte.csv", "", 0, 0),
    OddFile("header.csv", "id,name\n", 0, 0),
    OddFile("blank.csv", "\n\n", 0, 0),
    OddFile("long.csv", "id,name\n10," + "x" * 1_000_000 + "\n", 1, 0),
    OddFile("numbers.csv", "id,name\n99999999999,x\n1.5,x\n8,x\n", 1, 2, "numbers\\.csv"),
    OddFile("new name.csv", "id,new\n1,x\n2,\n", 1, 1, "do not fit the table"),
]


def row_counts_by_file(table, column):
    """Return the number of rows of each file, by its base name. `column` has the address of the file."""
    values = DeltaTable(str(table)).to_arrow()[column].to_pylist() if table.exists() else []
    return Counter(value.replace("%20", " ").rpartition("/")[2] for value in values)


def check(spark, tmp_path, files):
    """Load files with a quarantine, and check each of them."""
    (file_format,) = {file.file_format for file in files}
    target, quarantine = tmp_path / "orders", tmp_path / "quarantine"
    define_table(spark, TableRequest(table=str(target), schema=f"{SCHEMA}, file STRING"))
    for file in files:
        file.write(tmp_path / "landing")
    options = {"quarantine": str(quarantine), "max_bad_share": 1, "file_column": "file"}
    copy_files(spark, target, tmp_path / "landing", file_format, **options)
    assert row_counts_by_file(target, "file") == Counter(
        {file.name: file.loaded_count for file in files if file.loaded_count}
    )
    assert row_counts_by_file(quarantine, "file") == Counter(
        {file.name: file.quarantined_count for file in files if file.quarantined_count}
    )
    assert loaded_names(target) == sorted(file.name for file in files)


@pytest.mark.sample("json")
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_each_record_of_odd_files_is_loaded_or_quarantined(spark, tmp_path, file_format):
    check(spark, tmp_path, [file for file in FILES if file.file_format == file_format])


@pytest.mark.campaign
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_an_odd_file_is_loaded_or_the_error_names_it(spark, tmp_path, file):
    plain = tmp_path / "plain"
    define_table(spark, TableRequest(table=str(plain), schema=SCHEMA))
    file.write(tmp_path / "landing")
    content_before = folder_content(plain)
    if file.error is None:
        copy_files(spark, plain, tmp_path / "landing", file.file_format)
        assert len(rows(plain)) == file.loaded_count
    else:
        with pytest.raises(DeltaLiteError, match=file.error) as caught:
            copy_files(spark, plain, tmp_path / "landing", file.file_format)
        assert file.name in str(caught.value).replace("%20", " ")
        assert folder_content(plain) == content_before
    check(spark, tmp_path, [file])


@pytest.mark.campaign
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_typed_file_is_quarantined_if_its_columns_do_not_fit(
    spark, tmp_path, landing, table, quarantine, file_format
):
    define_table(spark, TableRequest(table=str(table), schema="id INT, name STRING"))
    queries = {
        "a": "SELECT 1 AS id, 'a' AS name", "new": "SELECT 2 AS id, true AS new", "text": "SELECT 'x' AS id",
        "case": "SELECT 3 AS ID", "short": "SELECT CAST(4 AS SMALLINT) AS id", "missing": "SELECT 'e' AS name",
        "long": "SELECT 99999999999 AS id",
    }  # fmt: skip
    for name, query in queries.items():
        spark.sql(query).coalesce(1).write.format(file_format).save(f"{landing}/{name}")
    content_before = folder_content(table)
    with pytest.raises(DeltaLiteError, match=r"The columns of .*/(new|text|long)/part-.*do not fit the table"):
        copy_files(spark, table, landing, file_format)
    assert folder_content(table) == content_before
    options = {"quarantine": str(quarantine), "file_format": file_format}
    result = copy_files(spark, table, landing, **options)
    assert sorted(map(str, rows(table))) == ["(1, 'a')", "(3, None)", "(4, None)", "(None, 'e')"]
    reasons = DeltaTable(str(quarantine)).to_arrow()["reason"].to_pylist()
    assert len(reasons) == result.metrics["numUnreadableFiles"] == 3
    assert all(reason.startswith("The columns of the file do not fit. ") for reason in reasons)
    typed = table.parent / "typed"
    define_table(spark, TableRequest(table=str(typed), schema="id INT, name STRING"))
    copy_files(spark, typed, landing, schema="id INT, name STRING", **options)
    assert sorted(map(str, rows(typed))) == ["(1, 'a')", "(2, None)", "(3, None)", "(4, None)", "(None, 'e')"], (
        "a schema ignores new columns, and no value becomes NULL"
    )
