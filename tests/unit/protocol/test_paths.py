"""Paths in the log: encoded once for the folder and once for the log, with one canonical spelling for each file."""

from __future__ import annotations

import re
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deltalite.protocol.paths import (
    NOT_CANONICAL,
    canonical_path,
    decode_path,
    encode_path,
    is_absolute,
    is_certainly_canonical,
    partition_dir,
    partition_values_of_dir,
)

NULL = "__HIVE_DEFAULT_PARTITION__"
SEGMENTS = st.text(st.characters(exclude_characters="\x00/", exclude_categories=["Cs"]), min_size=1)
PATHS = st.lists(SEGMENTS.filter(lambda segment: segment not in (".", "..")), min_size=1).map("/".join)
NAMES = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)


@given(path=PATHS)
@example(path="a:b/.x")
def test_a_path_survives_encoding_and_decoding(path):
    encoded = encode_path(path)
    assert decode_path(encoded) == path
    assert encoded.isascii() and not set(encoded) & set(' "<>\\^`{|}#?[]')


@given(values=st.dictionaries(NAMES, st.none() | NAMES.filter(lambda v: v != NULL)))
def test_a_directory_name_parses_to_its_partition_values(values):
    escaped = [(quote(name, ""), NULL if value is None else quote(value, "")) for name, value in values.items()]
    directory = "/".join(map("=".join, escaped))
    assert partition_values_of_dir(directory) == values
    assert partition_values_of_dir(decode_path(encode_path(directory))) == values


@given(values=st.dictionaries(NAMES, st.none() | NAMES.filter(lambda v: v != NULL)))
def test_a_directory_that_is_built_from_values_parses_to_them(values):
    assert partition_values_of_dir(partition_dir(values)) == values


@pytest.mark.parametrize(
    ("value", "directory", "in_log"),
    [  # the names that delta-spark 4 writes on disk and in the log
        ("2026-01-01", "p=2026-01-01", "p=2026-01-01"),
        ("a b", "p=a b", "p=a%20b"),
        ("a/b", "p=a%2Fb", "p=a%252Fb"),
        ("50%", "p=50%25", "p=50%2525"),
        ("x=y", "p=x%3Dy", "p=x%253Dy"),
        ("12:30:00", "p=12%3A30%3A00", "p=12%253A30%253A00"),
        ("[{^'\"#*?\\", "p=%5B%7B%5E%27%22%23%2A%3F%5C", "p=%255B%257B%255E%2527%2522%2523%252A%253F%255C"),
        ("}~!@$&()-_+;,.", "p=}~!@$&()-_+;,.", "p=%7D~!@$&()-_+;,."),
        ("\t\x7f", "p=%09%7F", "p=%2509%257F"),
        (None, f"p={NULL}", f"p={NULL}"),
    ],
)
def test_directories_are_spelled_and_read_as_spark_spells_them(value, directory, in_log):
    assert partition_dir({"p": value}) == directory
    assert partition_values_of_dir(directory) == {"p": value}
    assert encode_path(directory) == in_log


@pytest.mark.parametrize(
    ("in_log", "decoded"),
    [
        ("p=%C3%BC/f.parquet", "p=ü/f.parquet"),  # as delta-rs and this library write it
        ("p=ü/f.parquet", "p=ü/f.parquet"),  # Spark does not encode letters beyond ASCII
        ("a+b%2Bc", "a+b+c"),  # a plus is not a space
        ("a%20b%2520c", "a b%20c"),
        ("p=1//a%20b", "p=1/a b"),  # Hadoop reads two slashes as one
        ("file:////a//b", "file:///a/b"),
    ],
)
def test_paths_of_other_writers_are_decoded_once(in_log, decoded):
    assert decode_path(in_log) == decoded


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (["/a/b c", "file:/a/b%20c", "file:///a/b%20c", "/a/b%20c"], "/a/b c"),
        (["a/b", "a%2Fb"], "a/b"),
        (["s3://b/%25x"], "s3://b/%x"),
        (["d/x", "d//x", "./d/x", "d/./x", "e/../d/x", "./d//e/..//x"], "d/x"),
        (["s3://b/d/x", "s3://b//d/x", "s3://b/./d/e/../x"], "s3://b/d/x"),
        (["hdfs:/d/x", "hdfs:///d//x"], "hdfs:/d/x"),
        (["../x", "d/../../x"], "../x"),  # a path outside the table stays outside
        (["./a:b/x", "e/../a:b/x"], "./a:b/x"),  # without the dot, `a:` would be a URL scheme
        (["d/%2E/x"], "d/./x"),
    ],
)
def test_each_file_has_one_canonical_spelling(spellings, canonical):
    assert {canonical_path(s) for s in spellings} == {canonical}


PARTS = st.sampled_from(
    ["/", ".", "..", "a", "b%20", "%2F", "+", " ", "ü", "file:", "s3://", "c:", "=", ":", "host", "~"]
)


@settings(deadline=None)
@given(st.lists(PARTS, max_size=8).map("".join))
@example("/lake/s3://d:a")
@example("url=s3://a/x")
@example("://a/x")
def test_the_fast_check_finds_every_path_that_is_not_canonical(path):
    if canonical_path(path) != path:
        assert re.search(NOT_CANONICAL, path) and not is_certainly_canonical(path)
        assert pc.match_substring_regex(pa.array([path]), NOT_CANONICAL)[0].as_py()


@pytest.mark.parametrize("path", ["s3://bucket/day=1/a+b.parquet", "day=1/part-0.c000.snappy.parquet", "hdfs:/d/x"])
def test_the_fast_check_accepts_usual_paths(path):
    assert canonical_path(path) == path and not re.search(NOT_CANONICAL, path)


@pytest.mark.parametrize(
    ("path", "absolute"),
    [("a/b", False), ("p=a:b/f", False), ("/a", True), ("file:/a", True), ("s3://b/a", True), ("file:///a", True)],
)
def test_absolute_paths_are_recognized(path, absolute):
    assert is_absolute(path) is absolute


def test_the_host_of_a_local_path_may_be_localhost():
    assert decode_path("file://localhost/lake/a%20b") == "file:///lake/a b"
    assert canonical_path("file://localhost/lake/a%20b") == canonical_path("/lake/a b") == "/lake/a b"
    assert is_absolute(decode_path("file://localhost/lake/x"))
