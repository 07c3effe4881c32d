"""The listing of source files: patterns with Hadoop's syntax, hidden names, and files by their names."""

from __future__ import annotations

import os

import pytest

from deltalite.errors import InvalidRequestError, SourceNotFoundError
from deltalite.loaded_files.listing import SourceFolder, changed_files, find_files, list_files
from deltalite.requests.globs import NamePattern
from deltalite.requests.source_paths import split_address
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.trees import FolderContent

NAMES = ("a.csv", "b.json", "day=1/c.csv", "_day=2/d.csv", "x/y/e.csv", "_h.csv", ".g.csv", "_tmp/f.csv", "i._COPYING_")


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(NAMES):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * number)
        os.utime(file, (number, number))
    return SourceFolder(tree=LocalTree(str(tmp_path)), address="s3://landing")


def names(files):
    return [address.removeprefix("s3://landing/") for address in files["address"].to_pylist()]


def test_a_folder_is_listed_with_its_subfolders_and_without_hidden_names(folder):
    files = list_files(folder, "", None)
    assert names(files) == ["a.csv", "b.json", "day=1/c.csv", "_day=2/d.csv", "x/y/e.csv"]
    assert files["size_bytes"].to_pylist() == [0, 1, 2, 3, 4]
    assert files["modified_ms"].to_pylist() == [0, 1_000, 2_000, 3_000, 4_000]
    assert files["etag"].to_pylist() == [None] * 5


@pytest.mark.parametrize(
    ("path_pattern", "pattern", "expected"),
    [
        ("*.csv", None, ["a.csv"]),
        ("*", "*.csv", ["a.csv", "day=1/c.csv", "_day=2/d.csv", "x/y/e.csv"]),
        ("{day=*,x}", None, ["day=1/c.csv", "x/y/e.csv"]),
        ("x/*/e.csv", None, ["x/y/e.csv"]),
        ("*/*.csv", None, ["day=1/c.csv", "_day=2/d.csv"]),
        ("", "[ab].*", ["a.csv", "b.json"]),
        ("", "[^a]*.csv", ["day=1/c.csv", "_day=2/d.csv", "x/y/e.csv"]),
        ("", "*/?.csv", ["day=1/c.csv", "_day=2/d.csv"]),
        ("", "*.parquet", []),
    ],
)
def test_patterns_select_files_and_folders(folder, path_pattern, pattern, expected):
    assert names(list_files(folder, path_pattern, pattern)) == expected


def test_only_folders_that_a_pattern_may_match_are_listed():
    listed_folders = []

    class Tree:
        root, threads = "/r", 1

        def list(self, folder):
            listed_folders.append(folder)
            subfolders = {"": ["2025", "2026"], "2026": ["2026/01", "2026/02"]}.get(folder, [])
            return FolderContent(name=folder, folders=[(name, 0) for name in subfolders])

    list_files(SourceFolder(tree=Tree(), address="/r"), "2026/*2/*.csv", None)
    assert listed_folders == ["", "2026", "2026/02"]


def test_files_by_name_are_found_without_a_listing_of_everything(folder):
    assert names(find_files(folder, ["x/y/e.csv", "a.csv", "a.csv"])) == ["a.csv", "x/y/e.csv"]
    with pytest.raises(SourceNotFoundError, match=r"2 of the file_names .*: b\.csv, x/b\.csv"):
        find_files(folder, ["a.csv", "b.csv", "x/b.csv"])


def test_a_symbolic_link_is_left_out_with_a_warning(folder, tmp_path, caplog):
    (tmp_path / "x" / "link.csv").symlink_to(tmp_path / "a.csv")
    assert "x/link.csv" not in names(list_files(folder, "", None))
    assert "Left out entries of s3://landing/x: symbolic links" in caplog.text


def test_etags_of_a_tree_reach_the_files():
    class Tree:
        root, threads = "/r", 1

        def list(self, folder):
            return FolderContent(
                name=folder, bases=["a", "_b", "c"], sizes=[1] * 3, times_ms=[1] * 3, etags=["x", "y", None]
            )

    assert list_files(SourceFolder(tree=Tree(), address="/r"), "", None)["etag"].to_pylist() == ["x", None]


def test_files_that_changed_since_the_listing_are_found(folder, tmp_path):
    files = list_files(folder, "", None)
    (tmp_path / "new.csv").write_text("x")
    (tmp_path / "b.json").unlink()
    assert changed_files(folder, files) == [], "a file that is deleted cannot be loaded twice"
    os.utime(tmp_path / "day=1/c.csv", (9, 9))
    (tmp_path / "x/y/e.csv").write_text("longer")
    os.utime(tmp_path / "x/y/e.csv", (4, 4))
    assert changed_files(folder, files) == ["s3://landing/day=1/c.csv", "s3://landing/x/y/e.csv"]


@pytest.mark.parametrize(("before", "now", "count"), [("x", "y", 1), ("x", "x", 0), (None, "y", 0), ("x", None, 0)])
def test_a_file_with_another_etag_has_changed(before, now, count):
    etags = [before, now]

    class Tree:
        root, threads = "/r", 1

        def list(self, folder):
            return FolderContent(name=folder, bases=["a"], sizes=[1], times_ms=[1], etags=[etags.pop(0)])

    source = SourceFolder(tree=Tree(), address="/r")
    assert len(changed_files(source, list_files(source, "", None))) == count


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a*b?c", "aXXbYc", "abc"),
        (r"a\*", "a*", "ab"),
        ("{a,b{c,d}}.x", "bd.x", "b.x"),
        ("[a-c][!d]", "be", "bd"),
        ("a.c", "a.c", "abc"),
        ("[]]", "]", "["),
        ("[a\\-z]", "-", "b"),
    ],
)
def test_a_pattern_has_hadoops_meaning(pattern, matching, other):
    parsed = NamePattern.parse(pattern)
    assert parsed.matches(matching)
    assert not parsed.matches(other)


@pytest.mark.parametrize("pattern", ["a{b", "a[b", "{a,b}" * 20])
def test_a_malformed_pattern_is_refused(pattern):
    with pytest.raises(InvalidRequestError, match="pattern"):
        NamePattern.parse(pattern)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("s3://b/in", ("s3://b/in", "")),
        ("s3://b/in/", ("s3://b/in", "")),
        ("s3://b/in/2026-*/x.csv", ("s3://b/in", "2026-*/x.csv")),
        ("/in/{a,b}", ("/in", "{a,b}")),
        ("/*.csv", ("/", "*.csv")),
        ("data*/x", (".", "data*/x")),
        ("in/data*/x", ("in", "data*/x")),
    ],
)
def test_the_folder_of_a_source_ends_before_the_pattern(address, expected):
    assert split_address(address) == expected
