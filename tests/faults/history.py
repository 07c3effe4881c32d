"""A check of a history: it replays the log serially, in a model of sets of rows.

The rows right before a commit must explain it, by the rule of its isolation level: the rows that it reports as read are
the rows that it would have read there. Under `WriteSerializable`, rows that a blind append added after the commit read
the table may count as later than the commit.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.rival import rows_of


def check(table, level):
    """Return the app id of each version; fail at the first commit that the order of versions does not explain."""
    files, counter, blind, runs = {}, 0, {}, {}
    for version, path in enumerate(sorted((Path(table) / "_delta_log").glob("0*.json"))):
        assert int(path.stem) == version, "a version is missing"
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        info = next(a["commitInfo"] for a in actions if "commitInfo" in a)
        if version == 0:
            continue
        before = dict(files)
        for action in actions:
            if "remove" in action:
                del files[action["remove"]["path"]]  # fails if a file is removed twice or was never added
        for action in actions:
            if "add" in action:
                assert action["add"]["path"] not in files
                files[action["add"]["path"]] = (action["add"]["partitionValues"]["day"], rows_of(action["add"]))
        rows = [row for _, rows in files.values() for row in rows]
        assert len(rows) == len(set(rows)), f"version {version} has a row twice"
        report = json.loads(info["userMetadata"])
        later = {
            row
            for number, rows in blind.items()
            if level == "WriteSerializable" and number > info["readVersion"]
            for row in rows
        }
        _explain(version, report, before, files, later)
        if report["did"] == "append":
            blind[version] = set(rows) - {row for _, rows_of_file in before.values() for row in rows_of_file}
        if report["did"] == "evolve":
            assert report["saw"] == counter, f"version {version} overtook a change of the metadata"
            counter += 1
        [runs[version]] = [a["txn"]["appId"] for a in actions if "txn" in a]
    return runs, files


def _explain(version, report, before, after, later):
    old, new = ({(day, row) for day, rows in files.values() for row in rows} for files in (before, after))
    match report["did"]:
        case "append" | "describe" | "evolve":
            assert old <= new, version
        case "compact":
            assert old == new, f"version {version} changed rows"
        case "replace":
            there = {row for day, row in old if day == report["day"]}
            assert there - later <= set(report["saw"]) <= there, f"version {version} did not see what was there"
            removed = {row for _, row in old - new}
            assert removed == set(report["saw"]), version
        case "delete":
            there = {row for _, row in old if report["low"] <= row <= report["high"]}
            assert there - later <= set(report["saw"]) <= there, f"version {version} did not see what was there"
            assert {row for _, row in old - new} == set(report["saw"]) and new <= old, version
        case "upsert":
            there = {row for _, row in old if report["low"] <= row <= report["high"]}
            assert there - later <= set(report["saw"]) <= there, f"version {version} did not see what was there"
            keys = set(range(report["low"], report["high"] + 1))
            assert {row for _, row in new} == {row for _, row in old} | keys, version
        case "count":
            there = {row for _, row in old}
            assert there - later <= set(report["saw"]) <= there, f"version {version} did not count what was there"
            assert old <= new, version
        case other:
            raise AssertionError(other)
