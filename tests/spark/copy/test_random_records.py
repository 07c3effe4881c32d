"""The reader that leaves bad records out and the query that stores them agree on random CSV and JSON files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from random import Random

import pytest

from deltalite.protocol.schema import DecimalType, PrimitiveType, StructField, StructType
from deltalite.requests import Source
from deltalite.spark.reader.bad_records import RecordSeparation
from deltalite.spark.reader.file_loading import SourceFiles
from deltalite.spark.reader.source_files import read_source_files

pytestmark = [pytest.mark.spark, pytest.mark.campaign]

TABLE = StructType(
    (
        StructField("id", PrimitiveType("integer")),
        StructField("name", PrimitiveType("string")),
        StructField("amount", DecimalType(5, 2)),
        StructField("d", PrimitiveType("date")),
    )
)
DDL = "id INT, name STRING, amount DECIMAL(5,2), d DATE"
CELLS = (
    "1", "x", "", "  ", '"a,b"', '"a""b"', '"a\\",b"', '"unclosed', "1.5", "1.005", "99999999999", "2026-01-01",
    "2026-01-01T10:00:00", "2026-13-01", "nan", "null", "ä", "'q'", 'a"b', "\t1", " 2", "1e2", "#c", "true",
)  # fmt: skip
GOOD_CELLS = ("7", "n", "1.25", "2026-01-01")
EMPTY_LINES = ("", "   ", "# comment", " # no comment", "\x00", "\t")
VALUES = ("1", '"x"', "null", "1.005", '"2026-01-01T10:00:00"', '""', "true", "[1]", '{"a":1}', "NaN", '"1"', "-0")
GOOD_MEMBERS = {"id": "1", "name": '"n"', "amount": "1.25", "d": '"2026-01-01"'}
ODD_LINES = (
    '{"id":1,"new":2}', '{"id":1,"new":null}',
    "", "  ", "5", '"s"', "null", "{", "{}", "garbage", '{"id":1}}', '{"id":1} x', "{'id':1}", '{"id":01}', ' {"id":3}',
    '{"id":1,}', "\x00", '\ufeff{"id":4}',
)  # fmt: skip
CSV_OPTIONS = (
    {"comment": "#"},
    {"comment": "#", "ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"},
    {"escape": '"'},
    {"nullValue": "null", "quote": "'"},
    {"dateFormat": "yyyy-MM-dd", "locale": "de"},
)
# A name that occurs twice makes Spark's reader infer no columns, so the files are read as lines.
REPEATED_NAMES = ('{"id":1,"id":2}', '{"id":1,"ID":2}')
JSON_OPTIONS = ({}, {"allowSingleQuotes": "false"}, {"dateFormat": "yyyy-MM-dd"}, {"locale": "de"})


def csv_text(random: Random) -> str:
    lines = ["id,name,amount,d"]
    for _ in range(60):
        count = 4 if random.random() < 0.8 else random.randint(1, 6)
        cells = [random.choice(CELLS) for _ in range(count)]
        if random.random() < 0.6:
            cells[:4] = GOOD_CELLS[: min(count, 4)]
        lines.append(random.choice(EMPTY_LINES) if random.random() < 0.05 else ",".join(cells))
    start = "\ufeff" if random.random() < 0.2 else ""
    return start + random.choice(["\n", "\r\n"]).join(lines) + random.choice(["", "\n"])


def json_text(random: Random, odd_lines: Sequence[str]) -> str:
    def member(name: str, good_value: str) -> str:
        return f'"{name}":{random.choice(VALUES) if random.random() < 0.3 else good_value}'

    def line() -> str:
        if random.random() < 0.2:
            return random.choice(odd_lines)
        return "{" + ",".join(member(*item) for item in GOOD_MEMBERS.items() if random.random() < 0.8) + "}"

    return "\n".join(line() for _ in range(60))


@pytest.mark.parametrize("schema", [None, DDL], ids=["types of the table", "a schema"])
@pytest.mark.parametrize(
    ("file_format", "options", "odd_lines"),
    [
        *(("csv", {"header": "true", **o}, ()) for o in CSV_OPTIONS),
        *(("json", o, odd_lines) for o in JSON_OPTIONS for odd_lines in (ODD_LINES, ODD_LINES + REPEATED_NAMES)),
    ],
)
def test_exactly_the_records_that_the_reader_leaves_out_are_stored(
    spark, tmp_path, file_format, options, odd_lines, schema
):
    random = Random(f"{options}{schema}")
    lines = {}
    for number in range(3):
        text = csv_text(random) if file_format == "csv" else json_text(random, odd_lines)
        file = tmp_path / f"{number}.{file_format}"
        file.write_bytes(text.encode())
        lines[str(file)] = re.split("\r\n|\n", text.removeprefix("\ufeff"))
    source = Source(format=file_format, path=str(tmp_path), options=options, schema=schema)
    sizes = {address: os.path.getsize(address) for address in sorted(lines)}
    files = SourceFiles(source=source, folder=str(tmp_path), sizes=sizes)
    separation = RecordSeparation()
    table = None if schema else TABLE
    rows = read_source_files(spark, files, table, merge_schema=False, separation=separation)
    good_count = rows.count()
    counts = separation.counts()
    bad = separation.bad_records(spark).collect()
    assert len(bad) == counts.bad_records > 0
    assert good_count == counts.records - counts.bad_records > 0
    assert [row["record"] for row in bad] == [lines[row["file"]][row["line"] - 1] for row in bad]
    assert all(row["reason"] for row in bad)
