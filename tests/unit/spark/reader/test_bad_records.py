"""The reasons and the lines of bad records: columns of CSV records, numbers of lines, addresses, and charsets."""

from __future__ import annotations

import re

import pytest

from deltalite.spark.reader import bad_record_lines
from deltalite.spark.reader.bad_record_lines import address_of, path_key, spark_charset
from deltalite.spark.reader.bad_record_reasons import csv_patterns


def column_count(record, **options):
    """Count like the query, with Python's regular expressions in place of Java's."""
    separator, quoted_text = csv_patterns(options)
    text = record if quoted_text is None else re.sub(quoted_text, r"\g<1>x", record)
    return len(re.split(separator, text))


@pytest.mark.parametrize(
    ("record", "options", "count"),
    [
        ("a,b", {}, 2),
        ("", {}, 1),
        (",,", {}, 3),
        ('"a,b",c', {}, 2),
        ('a, "b,c"', {}, 2),
        ('"a ""b"", c",d', {}, 2),
        (r'"a \", c",d', {}, 2),
        ('"a "", c",d', {"escape": '"'}, 2),
        ("'a;b';c", {"sep": ";", "quote": "'"}, 2),
        ("a||b|c", {"SEP": "||"}, 2),
        ("a\tb", {"delimiter": r"\t"}, 2),
        ("a.b^c", {"sep": "."}, 2),
        ('"a,b"', {"quote": ""}, 2),
        ("a]b]c", {"sep": "]", "quote": "^"}, 3),
        ('"' + "x" * 100_000 + ',",y', {}, 2),
    ],
)
def test_separators_in_quotes_do_not_count(record, options, count):
    assert column_count(record, **options) == count


def test_the_first_line_of_a_block_follows_the_lines_of_the_blocks_before_it():
    blocks = [("file:/l/a", 40, 9, 3, 9), ("file:/l/b", 0, 0, 2, 1), ("file:/l/a", 0, 2, 5, 3)]
    by_path = {path_key(address): address for address in ("/l/a", "/l/b")}
    assert list(bad_record_lines._with_first_lines(blocks, by_path)) == [
        ("file:/l/a", 0, "/l/a", 2, 1, 3),
        ("file:/l/a", 40, "/l/a", 9, 6, None),
        ("file:/l/b", 0, "/l/b", 0, 1, 1),
    ]


@pytest.mark.parametrize(
    ("address", "spark_path"),
    [
        ("/l/a b%20.csv", "file:///l/a%20b%2520.csv"),
        ("/l/a.csv", "file:/l/a.csv"),
        ("s3://bucket/l/ä.csv", "s3a://bucket/l/%C3%A4.csv"),
        ("abfss://c@a.dfs.core.windows.net/l/a.csv", "abfss://c@a.dfs.core.windows.net/l/a.csv"),
    ],
)
def test_a_path_in_the_spelling_of_spark_gives_the_address_of_the_file(address, spark_path):
    assert address_of(spark_path, {path_key(address): address}) == address
    assert address_of("file:/other", {path_key(address): address}) == "file:/other"


def test_charsets_have_the_names_of_spark():
    assert [spark_charset(name) for name in ("utf8", "latin1", "UTF-16LE", "cp1252", "nonsense")] == [
        "UTF-8", "ISO-8859-1", "UTF-16LE", None, None,
    ]  # fmt: skip
