"""A check of a table's log: it replays the commits one after another, and models each version as a set of rows.

Each commit of `rival` reports the rows that it read. The check compares them with the rows of the version before the
commit. Under `Serializable` both must be equal. Under `WriteSerializable` the report may lack the rows of a blind
append that was committed after the current transaction had read the table.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.rival import rows_of


def check_history(table, isolation_level):
    """Check each commit of a table. Returns the app id of each version, and the live files by path.

    Raises AssertionError at the first commit that the versions before it do not explain.
    """
    files, metadata_counter, rows_of_blind_appends, app_ids_by_version = {}, 0, {}, {}
    for version, path in enumerate(sorted((Path(table) / "_delta_log").glob("0*.json"))):
        assert int(path.stem) == version, "a version is missing"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        if version == 0:
            continue
        files_before = dict(files)
        for action in actions:
            if "remove" in action:
                # A KeyError means that the file was removed before, or was never added.
                del files[action["remove"]["path"]]
        for action in actions:
            if "add" in action:
                assert action["add"]["path"] not in files
                files[action["add"]["path"]] = (action["add"]["partitionValues"]["day"], rows_of(action["add"]))
        rows = [row for _, rows in files.values() for row in rows]
        assert len(rows) == len(set(rows)), f"version {version} has a row twice"
        report = json.loads(info["userMetadata"])
        unread_rows = {
            row
            for append_version, appended_rows in rows_of_blind_appends.items()
            if isolation_level == "WriteSerializable" and append_version > info["readVersion"]
            for row in appended_rows
        }
        _check_commit(version, report, files_before, files, unread_rows)
        if report["operation"] == "append":
            rows_of_blind_appends[version] = set(rows) - {
                row for _, rows_of_file in files_before.values() for row in rows_of_file
            }
        if report["operation"] == "evolve":
            assert report["read_counter"] == metadata_counter, f"version {version} missed a change of the metadata"
            metadata_counter += 1
        [app_ids_by_version[version]] = [action["txn"]["appId"] for action in actions if "txn" in action]
    return app_ids_by_version, files


def _check_commit(version, report, files_before, files_after, unread_rows):
    """Compare a commit with the files before and after it. Its operation may have missed `unread_rows`."""
    rows_before, rows_after = (
        {(day, row) for day, rows in files.values() for row in rows} for files in (files_before, files_after)
    )
    match report["operation"]:
        case "append" | "describe" | "evolve":
            assert rows_before <= rows_after, version
        case "compact":
            assert rows_before == rows_after, f"version {version} changed rows"
        case "replace":
            matching_rows = {row for day, row in rows_before if day == report["day"]}
            _check_read_rows(version, report, matching_rows, unread_rows)
            assert {row for _, row in rows_before - rows_after} == set(report["read_rows"]), version
        case "delete":
            matching_rows = {row for _, row in rows_before if report["low"] <= row <= report["high"]}
            _check_read_rows(version, report, matching_rows, unread_rows)
            assert {row for _, row in rows_before - rows_after} == set(report["read_rows"]), version
            assert rows_after <= rows_before, version
        case "upsert":
            matching_rows = {row for _, row in rows_before if report["low"] <= row <= report["high"]}
            _check_read_rows(version, report, matching_rows, unread_rows)
            keys = set(range(report["low"], report["high"] + 1))
            assert {row for _, row in rows_after} == {row for _, row in rows_before} | keys, version
        case "count":
            _check_read_rows(version, report, {row for _, row in rows_before}, unread_rows)
            assert rows_before <= rows_after, version
        case operation:
            raise AssertionError(operation)


def _check_read_rows(version, report, matching_rows, unread_rows):
    """Assert that a commit read the rows that match its condition. It may have missed `unread_rows`."""
    read_rows = set(report["read_rows"])
    assert matching_rows - unread_rows <= read_rows <= matching_rows, f"version {version} read wrong rows"
