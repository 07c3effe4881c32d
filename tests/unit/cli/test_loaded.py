"""`deltalite loaded` shows the files that a version has loaded, by their modification times."""

from __future__ import annotations

import dataclasses
import json

import pytest

from deltalite.cli.main import main
from deltalite.loaded_files.manifest import Manifest
from deltalite.loaded_files.record import add_loaded_files
from deltalite.storage.local import LocalLogStore
from deltalite.txn.loaded_files import loaded_files_transaction
from tests.unit.builders import NOON_MS, add, create, proposal, try_commit
from tests.unit.loaded_files.test_record import files

SECOND_MS = 1_000


@pytest.fixture
def table(tmp_path):
    """A table that loaded two files in version 1, and one more in version 2."""
    store = create(LocalLogStore(str(tmp_path)))
    manifest = Manifest()
    for version, load in enumerate(
        (
            files(("s3://in/a.csv", 1, NOON_MS), ("s3://in/b.csv", 2, NOON_MS + SECOND_MS, "tag")),
            files(("s3://in/c.csv", 3, NOON_MS + 2 * SECOND_MS)),
        )
    ):
        manifest = add_loaded_files(store, manifest, load, loaded_ms=NOON_MS)
        offsets = (loaded_files_transaction(manifest.number, now_ms=NOON_MS),)
        try_commit(store, dataclasses.replace(proposal(version, add(f"f{version}")), offsets=offsets))
    return str(tmp_path)


def run(capsys, *argv):
    assert main(["loaded", *argv]) == 0
    return capsys.readouterr().out.splitlines()


def test_files_are_shown_from_the_newest_on(table, capsys):
    lines = run(capsys, table)
    assert [line.split()[0] for line in lines if "s3://" in line] == [f"s3://in/{name}.csv" for name in "cba"]
    assert lines[-1] == "The table has loaded 3 files."
    assert run(capsys, table, "--version", "0")[-1] == "The table has loaded 0 files."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--limit", "1"), "c"),
        (("--since", "2023-11-14T22:13:21Z"), "cb"),
        (("--until", "2023-11-14T22:13:21Z"), "a"),
        (("--version", "1"), "ba"),
    ],
)
def test_options_select_files(table, capsys, options, expected):
    addresses = [json.loads(line)["address"] for line in run(capsys, table, "--json", *options)]
    assert addresses == [f"s3://in/{name}.csv" for name in expected]


def test_json_has_the_identity_of_a_file_and_the_time_of_the_load(table, capsys):
    (line,) = run(capsys, table, "--json", "--since", "2023-11-14T22:13:21Z", "--until", "2023-11-14T22:13:22Z")
    assert json.loads(line) == {
        "address": "s3://in/b.csv",
        "sizeInBytes": 2,
        "modificationTime": "2023-11-14T22:13:21Z",
        "etag": "tag",
        "loadedTime": "2023-11-14T22:13:20Z",
    }
