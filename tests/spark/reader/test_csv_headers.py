"""The names of the columns of a CSV file are those of Spark's reader, except for blanks around a name."""

from __future__ import annotations

import gzip

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import Source
from deltalite.spark.reader.csv_fields import CsvDialect
from deltalite.spark.reader.csv_headers import CsvHeaderReader
from deltalite.spark.reader.unreadable_file_error import UnreadableFileError
from deltalite.storage.local import LocalLogStore

pytestmark = pytest.mark.spark

HEADERS = [
    (r'"a\",b",c', {}),
    (r'"a\\",b,"c\n"', {}),
    (r'a\"b,c\,"d\,e"', {}),
    ('"a""b","c"",d"', {}),
    ('"a"b,"c" ,"d" e', {}),
    ('"a"",b",c', {"escape": '"'}),
    (r'"a\",b', {"escape": '"'}),
    ('"a^",b",c', {"escape": "^"}),
    (r'"a\^",b",c', {"escape": "^", "charToEscapeQuoteEscaping": "\\"}),
    ("'a,b',\"c,d", {"quote": "'"}),
    ('"a,b",c', {"quote": "", "escape": ""}),
    (r'"a||\"b"||c|d||', {"sep": "||"}),
    ('"a\tb"\tc', {"sep": r"\t"}),
    (r"a\b|c", {"sep": r"\\"}),
    ('a, "b,c"', {"ignoreLeadingWhiteSpace": "true"}),
    ("a" * 140_000 + ",b", {}),
    ('a,b\rc,"d\re"', {"lineSep": "\n"}),
    ('a,b,"', {}),
    ('"', {}),
    ('"a\\"b', {"escape": ""}),
    ('"a,b",c', {"multiLine": "true"}),
    ("x  y, z ", {"quote": " "}),
]


@pytest.mark.parametrize(("header", "options"), HEADERS, ids=range(len(HEADERS)))
def test_the_names_of_a_header_are_those_of_spark(spark, tmp_path, header, options):
    (tmp_path / "a.csv").write_bytes(f"{header}\n".encode())
    names = spark.read.options(header="true", **options).csv(str(tmp_path)).columns
    assert CsvHeaderReader(options).read(LocalLogStore(str(tmp_path)), "a.csv") == tuple(name.strip() for name in names)


@pytest.mark.parametrize(
    "options",
    [
        {"quote": "''"},
        {"escape": "ab"},
        {"comment": "--"},
        {"charToEscapeQuoteEscaping": "ab"},
        {"quote": "\N{GRINNING FACE}"},
        {"sep": ""},
        {"sep": "\\"},
        {"sep": r"|\|"},
        {"lineSep": ""},
        {"lineSep": "|||"},
    ],
)
def test_options_that_spark_does_not_accept_are_rejected_before_files_are_read(spark, tmp_path, options):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Exception):  # noqa: B017  Spark's errors have no common class
        spark.read.options(header="true", **options).csv(str(tmp_path)).collect()
    with pytest.raises(InvalidRequestError):
        Source(format="csv", path=str(tmp_path), options=options)


def test_a_long_quoted_name_is_read_in_linear_time():
    """With quadratic time, this test would take half an hour."""
    assert CsvDialect.of({}).fields('"' + "a" * 2**23 + '",b') == ["a" * 2**23, "b"]


def test_a_header_above_the_limit_is_rejected_even_if_its_compressed_file_is_small(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a" * (16 * 2**20 + 1) + b"\n1\n"))
    with pytest.raises(UnreadableFileError, match="longer than 16 MiB"):
        CsvHeaderReader({}).read(LocalLogStore(str(tmp_path)), "a.csv.gz")


def test_a_name_with_a_line_break_makes_the_file_unreadable_with_multi_line(tmp_path):
    (tmp_path / "a.csv").write_text('"a\nb",c\n1,2\n')
    assert CsvHeaderReader({}).read(LocalLogStore(str(tmp_path)), "a.csv") == ("a",)
    with pytest.raises(UnreadableFileError, match="line break"):
        CsvHeaderReader({"multiLine": "TRUE"}).read(LocalLogStore(str(tmp_path)), "a.csv")
