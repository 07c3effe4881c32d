"""The judge of a history: the log replayed serially, in a model of nothing but sets of rows.

Every commit must be explained by the rows that were there right before it, as its isolation level means that: what it
says it saw is what it would have seen there. Under `WriteSerializable` rows that were appended blindly after it had
read the table may count as later than it.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.rival import rows_of


def check(table, level):
    """The app id of each version; fails at the first commit that the order of versions does not explain."""
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
                del files[action["remove"]["path"]]  # fails where a file is removed twice, or was never there
        for action in actions:
            if "add" in action:
                assert action["add"]["path"] not in files
                files[action["add"]["path"]] = (action["add"]["partitionValues"]["day"], rows_of(action["add"]))
        rows = [row for _, rows in files.values() for row in rows]
        assert len(rows) == len(set(rows)), f"version {version} has a row twice"
        said = json.loads(info["userMetadata"])
        later = {
            row
            for number, rows in blind.items()
            if level == "WriteSerializable" and number > info["readVersion"]
            for row in rows
        }
        _explain(version, said, before, files, later)
        if said["did"] == "append":
            blind[version] = set(rows) - {row for _, own in before.values() for row in own}
        if said["did"] == "evolve":
            assert said["saw"] == counter, f"version {version} overtook a change of the metadata"
            counter += 1
        [runs[version]] = [a["txn"]["appId"] for a in actions if "txn" in a]
    return runs, files


def _explain(version, said, before, after, later):
    old, new = ({(day, row) for day, rows in files.values() for row in rows} for files in (before, after))
    match said["did"]:
        case "append" | "describe" | "evolve":
            assert old <= new, version
        case "compact":
            assert old == new, f"version {version} changed rows"
        case "replace":
            there = {row for day, row in old if day == said["day"]}
            assert there - later <= set(said["saw"]) <= there, f"version {version} did not see what was there"
            gone = {row for _, row in old - new}
            assert gone == set(said["saw"]), version
        case "delete":
            there = {row for _, row in old if said["low"] <= row <= said["high"]}
            assert there - later <= set(said["saw"]) <= there, f"version {version} did not see what was there"
            assert {row for _, row in old - new} == set(said["saw"]) and new <= old, version
        case "upsert":
            there = {row for _, row in old if said["low"] <= row <= said["high"]}
            assert there - later <= set(said["saw"]) <= there, f"version {version} did not see what was there"
            keys = set(range(said["low"], said["high"] + 1))
            assert {row for _, row in new} == {row for _, row in old} | keys, version
        case "count":
            there = {row for _, row in old}
            assert there - later <= set(said["saw"]) <= there, f"version {version} did not count what was there"
            assert old <= new, version
        case other:
            raise AssertionError(other)
