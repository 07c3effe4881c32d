"""`deltalite health` reports the maintenance that the tables of a pattern need, and writes nothing."""

from __future__ import annotations

import json
import threading

import deltalake
import pyarrow as pa
import pytest

from deltalite.cli import health
from deltalite.cli.exit_codes import FOUND_ERRORS
from deltalite.cli.main import main
from deltalite.errors import InvalidRequestError, InvalidTableAddressError, TableNotFoundError
from deltalite.storage.opening import open_store
from tests.support.tables import folder_content


@pytest.fixture
def lake(tmp_path):
    """A table with many small files, a healthy table, a broken one, and a folder that is not a table."""
    lake = tmp_path / "lake"
    for name, count in (("many", 12), ("few", 2)):
        for number in range(count):
            deltalake.write_deltalake(str(lake / name), pa.table({"id": [number]}), mode="append")
    (lake / "broken" / "_delta_log").mkdir(parents=True)
    (lake / "broken" / "_delta_log" / f"{0:020}.json").write_text("no action\n")
    (lake / "landing").mkdir()
    return lake


def test_json_has_an_object_for_each_table_with_the_most_urgent_first(lake, capsys):
    before = folder_content(lake)
    assert main(["health", f"{lake}/*", "--json", "--parallelism", "2"]) == FOUND_ERRORS
    broken, many, few = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(row["table"], row["status"]) for row in (broken, many, few)] == [
        (f"{lake}/broken", "failed"), (f"{lake}/many", "due"), (f"{lake}/few", "healthy"),
    ]  # fmt: skip
    assert broken["error"]["kind"] == "CorruptLogError" and "before" not in broken
    assert many["before"] == {
        "version": 11, "numFiles": 12, "sizeInBytes": many["before"]["smallFileBytes"], "numSmallFiles": 12,
        "smallFileBytes": many["before"]["bytesToRewrite"], "numFilesToRewrite": 12,
        "bytesToRewrite": many["before"]["bytesToRewrite"], "deletedRowsRatio": 0.0, "commitsSinceCheckpoint": 12,
        "deadBytes": 0, "retainedBytes": 0, "daysSinceVacuum": None,
    }  # fmt: skip
    assert {name: step["outcome"] for name, step in many["steps"].items()} == {
        "optimize": "due", "checkpoint": "due", "vacuum": "not needed",
    }  # fmt: skip
    assert folder_content(lake) == before


def test_text_output_has_the_measures_and_the_reasons(lake, capsys):
    assert main(["health", f"{lake}/many", f"{lake}/f*"]) == 0
    output = capsys.readouterr().out
    assert "optimize: 12 files to rewrite (threshold 10)" in output
    assert f"{lake}/few" in output and "healthy" in output


def test_a_named_table_must_exist_and_a_pattern_must_match_a_table(lake, capsys):
    assert main(["health", f"{lake}/landing"]) == FOUND_ERRORS
    assert "TableNotFoundError: There is no Delta table at" in capsys.readouterr().out
    assert main(["health", f"{lake}/land*"]) == TableNotFoundError.exit_code
    assert "No Delta table matches" in capsys.readouterr().err


def test_a_folder_with_an_invalid_name_has_one_row(lake, capsys):
    (lake / "backup ").mkdir()
    assert main(["health", f"{lake}/*", "--json"]) == FOUND_ERRORS
    rows = {row["table"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows.keys() == {f"{lake}/{name}" for name in ("backup ", "broken", "few", "many")}
    assert rows[f"{lake}/backup "]["error"]["kind"] == "InvalidTableAddressError"


def test_a_table_with_several_addresses_has_one_row(lake, capsys):
    assert main(["health", f"{lake}/few/", f"file://{lake}/few", f"{lake}/f*", f"{lake}/*w", "--json"]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["table"] == f"{lake}/few/", "the first address"
    assert main(["health", f"{lake}/land*", f"{lake}/landing"]) == FOUND_ERRORS, "a pattern does not hide a named table"
    capsys.readouterr()


def test_tables_of_a_list_are_read_at_the_same_time(lake, capsys, monkeypatch):
    both_are_open = threading.Barrier(2, timeout=30)

    def open_with_another(address, **options):
        both_are_open.wait()
        return open_store(address, **options)

    monkeypatch.setattr(health, "open_store", open_with_another)
    assert main(["health", f"{lake}/few", f"{lake}/many", "--parallelism", "2"]) == 0
    capsys.readouterr()


def test_wrong_arguments_are_rejected(lake, capsys):
    assert main(["health", f"{lake}/few@v1"]) == InvalidRequestError.exit_code
    message = " ".join(capsys.readouterr().err.split())
    assert "Could not measure" in message and "only the newest version can be measured" in message
    assert main(["health", f"{lake}/few", "--parallelism", "0"]) == InvalidRequestError.exit_code
    assert main(["health", "s3://*/few"]) == InvalidRequestError.exit_code
    assert main(["health", f"{lake}/few", "s3://"]) == InvalidTableAddressError.exit_code
    assert main(["health"]) == 2
    capsys.readouterr()
