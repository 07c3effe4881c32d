"""`deltalite vacuum --dry-run` lists the files that a vacuum would delete, as text and as JSON, and changes nothing."""

from __future__ import annotations

import json
import os
import time

import deltalake
import pyarrow as pa
import pytest

from deltalite.cli.main import main
from deltalite.errors import InvalidRequestError, TableNotFoundError
from tests.support.tables import folder_content

THIRTY_DAYS_S = 30 * 24 * 3600


@pytest.fixture
def table(tmp_path):
    """A table with a file that was just removed, and an old file that no version refers to."""
    table = tmp_path / "orders"
    for number in range(2):
        deltalake.write_deltalake(str(table), pa.table({"id": [number]}), mode="overwrite")
    (table / "lost").mkdir()
    (table / "lost" / "orphan.parquet").write_bytes(b"x" * 2048)
    os.utime(table / "lost" / "orphan.parquet", (time.time() - THIRTY_DAYS_S,) * 2)
    return table


def test_text_output_has_files_folders_and_sums(table, capsys):
    before = folder_content(table)
    assert main(["vacuum", str(table), "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "lost/orphan.parquet" in output and "1 file of 2.0 KiB would be deleted" in output
    assert folder_content(table) == before


def test_json_output_has_a_line_for_each_file_and_the_sums(table, capsys):
    arguments = ["vacuum", str(table), "--dry-run", "--json"]
    assert main(arguments) == 0
    *files, sums = map(json.loads, capsys.readouterr().out.splitlines())
    assert files == [{"path": "lost/orphan.parquet", "sizeInBytes": 2048}]
    assert sums == {
        "numFilesToDelete": 1, "sizeOfDataToDelete": 2048, "numDirectoriesToDelete": 1,
        "largestDirectories": [{"name": "lost", "files": 1, "sizeInBytes": 2048}],
    }  # fmt: skip
    short_retention = ["--retention-hours", "0", "--confirm-short-retention", "orders"]
    for mode, count in (("full", 2), ("lite", 1)):
        assert main([*arguments, *short_retention, "--mode", mode]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["numFilesToDelete"] == count


def test_a_rejected_vacuum_exits_with_the_code_of_its_error(table, tmp_path, capsys):
    assert main(["vacuum", str(table), "--dry-run", "--retention-hours", "1"]) == InvalidRequestError.exit_code
    assert "confirm_short_retention='orders'" in capsys.readouterr().err
    assert main(["vacuum", str(tmp_path / "none"), "--dry-run"]) == TableNotFoundError.exit_code
    assert main(["vacuum", str(table)]) == 2, "the program has no vacuum without --dry-run"
