"""The names of the columns of a CSV file are those of Spark's reader, except for blanks around a name."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import Source
from deltalite.spark.reader.csv_headers import CsvHeaderReader
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
