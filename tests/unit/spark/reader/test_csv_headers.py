"""The header of a CSV file has the names that Spark's reader gives the columns."""

from __future__ import annotations

import bz2
import gzip
import zlib

import pytest

from deltalite.errors import InvalidRequestError, SourceError, SourceNotFoundError
from deltalite.spark.reader.csv_headers import CsvHeaderReader
from deltalite.spark.reader.unreadable_file_error import UnreadableFileError
from deltalite.storage.memory import MemoryLogStore


def header(data, name="a.csv", **options):
    store = MemoryLogStore()
    store.files[name] = (data, 0)
    return CsvHeaderReader(options).read(store, name)


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        (b"id,name\n1,x\n", {}, ("id", "name")),
        (b"id", {}, ("id",)),
        (b'\xef\xbb\xbf"a,b", c \r\n', {}, ("a,b", "c")),
        (b"\n\n#note\na;b\n", {"Sep": ";", "comment": "#"}, ("a", "b")),
        (b"a||b\n", {"delimiter": "||"}, ("a", "b")),
        (b"a\tb\n", {"sep": r"\t"}, ("a", "b")),
        ("größe\n".encode("latin-1"), {"encoding": "ISO-8859-1"}, ("größe",)),
        (b"a,,A\n", {}, ("a0", "_c1", "A2")),
        ("name\nM\xfcller\n".encode("latin-1"), {}, ("name",)),  # only the header must be text
        (b"a" * 140_000 + b",b\n", {}, ("a" * 140_000, "b")),
        (b'a,b\rc,"d\re"\r\n', {"lineSep": "\n"}, ("a", "b\rc", "d\re")),
        (rb'"a\",b",c', {}, ('a",b', "c")),
        (rb'"a\\",b', {}, ("a\\", "b")),
        (rb'"a\",b",c', {"escape": '"'}, ("a\\", 'b"', "c")),
        (b'"a"",b",c', {"escape": '"'}, ('a",b', "c")),
        (b'"a^",b",c', {"ESCAPE": "^"}, ('a",b', "c")),
        (rb'"a\^",b",c', {"escape": "^", "charToEscapeQuoteEscaping": "\\"}, ("a^", 'b"', "c")),
        (b'"a||\\"b"||c', {"sep": "||"}, ('a||"b', "c")),
        (b'a, "b,c"', {"ignoreLeadingWhiteSpace": "true"}, ("a", "b,c")),
        (b'"a,b",c', {"quote": ""}, ('"a', 'b"', "c")),
        (b'"a" ,"b"x,"c', {}, ("a", '"b"x', "c")),
        (b"", {}, None),
        (b"\n \n", {}, None),
    ],
)
def test_the_first_line_names_the_columns(data, options, expected):
    assert header(data, **options) == expected


def test_a_compressed_or_long_header_is_read():
    names = tuple(f"column_{number}" for number in range(20_000))
    line = ",".join(names).encode()
    assert header(line + b"\n1\n") == names
    assert header(gzip.compress(line + b"\n1\n"), "a.csv.gz") == names
    assert header(bz2.compress(line + b"\n1\n"), "a.csv.bz2") == names


@pytest.mark.parametrize(("module", "ending"), [(gzip, "gz"), (bz2, "bz2")])
def test_a_header_may_continue_in_the_next_member_of_a_compressed_file(module, ending):
    parts = (b"id,", b"na", b"me\n1,x\n")
    data = b"".join(module.compress(part) for part in parts)
    assert header(data, f"a.csv.{ending}") == ("id", "name")
    assert header(data + bytes(8), f"a.csv.{ending}") == ("id", "name"), "zeros may follow"


def test_a_header_that_cannot_be_read_is_an_error():
    for name, data, options, error in (
        ("a.csv.gz", b"no", {}, SourceError),
        ("a.csv.zst", b"x", {}, SourceError),
        ("a.csv", b"\xff\n", {}, SourceError),
        ("a.csv", b"a\n", {"encoding": "no"}, InvalidRequestError),
    ):
        with pytest.raises(error):
            header(data, name, **options)
    with pytest.raises(SourceNotFoundError):
        CsvHeaderReader({}).read(MemoryLogStore(), "a.csv")


@pytest.mark.parametrize(
    ("compress", "ending"), [(gzip.compress, "gz"), (bz2.compress, "bz2"), (zlib.compress, "deflate")]
)
def test_a_compressed_file_without_its_end_is_an_error_and_not_an_empty_file_or_another_header(compress, ending):
    data = compress(b"id,name\n1,x\n")
    assert header(data, f"a.csv.{ending}") == ("id", "name")
    for size in range(1, len(data)):
        with pytest.raises(UnreadableFileError, match="end of the compressed file"):
            header(data[:size], f"a.csv.{ending}")


def test_a_header_is_an_option_of_the_source():
    assert CsvHeaderReader({"HEADER": "True"}).has_header
    assert not CsvHeaderReader({}).has_header
