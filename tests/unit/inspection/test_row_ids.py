"""`verify` finds files of the newest version with shared, missing or too high row ids."""

from __future__ import annotations

import json

import pytest

from deltalite.inspection.findings import FindingKind
from deltalite.inspection.verify import verify
from deltalite.protocol.actions import DomainMetadata, Protocol, commit_to_bytes
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, add, load, metadata

FEATURES = ("domainMetadata", "rowTracking")
PROTOCOL = Protocol(min_reader_version=1, min_writer_version=7, writer_features=FEATURES)
ENABLED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row_commit_version",
}


def tracked(name, first, rows=10, version=0):
    """An `add` of a file of `rows` rows, whose first row id is `first`."""
    return add(name, stats=json.dumps({"numRecords": rows}), base_row_id=first, default_row_commit_version=version)


def findings_of(folder, *files, high_water_mark=29, configuration=ENABLED, checkpoint=False):
    """The path and the message of each finding about row ids in a table with these files."""
    store = LocalLogStore(str(folder))
    domain = DomainMetadata(
        domain="delta.rowTracking", configuration=f'{{"rowIdHighWaterMark":{high_water_mark}}}', removed=False
    )
    store.write_if_absent(commit_name(0), commit_to_bytes([PROTOCOL, metadata(configuration), domain, *files]))
    for file in files:
        (folder / file.path).write_bytes(bytes(file.size_bytes))
    if checkpoint:
        write_checkpoint(load(store), now_ms=NOON_MS)
    report = verify(store, with_footers=False)
    assert {finding.kind for finding in report.findings} <= {FindingKind.WRONG_ROW_IDS}
    assert all(finding.versions == ((0, 0),) for finding in report.findings)
    return [(finding.file, finding.message) for finding in report.findings]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_files_with_separate_row_ids_have_no_findings(tmp_path, checkpoint):
    files = [tracked("a", 0), tracked("b", 20), tracked("c", 10), tracked("empty", 30, rows=0)]
    assert findings_of(tmp_path, *files, checkpoint=checkpoint) == []


def test_files_that_share_row_ids_are_found(tmp_path):
    files = (tracked("a", 0, 20), tracked("b", 5, 1), tracked("c", 19), tracked("d", 29, 1))
    assert findings_of(tmp_path, *files) == [
        ("b", "The row ids of the file are 5 to 5, but another file already has the ids up to 19."),
        ("c", "The row ids of the file are 19 to 28, but another file already has the ids up to 19."),
    ]


def test_files_without_row_ids_or_without_a_number_of_rows_are_found(tmp_path):
    without_row_count = add("c", stats="{}", base_row_id=0, default_row_commit_version=0)
    without_ids = add("a", stats='{"numRecords":1}'), tracked("b", 3, version=None)
    findings = findings_of(tmp_path, *without_ids, without_row_count)
    assert [file for file, _ in findings] == ["a", "b", "c"]
    assert all("no base row id" in message for _, message in findings)


@pytest.mark.parametrize(("first", "last"), [(-5, 4), (25, 34), (2**63 - 2, 2**63 - 1), (2**63 - 11, 2**63 - 2)])
def test_row_ids_that_were_never_assigned_are_found(tmp_path, first, last):
    [(file, message)] = findings_of(tmp_path, tracked("a", first))
    assert file == "a" and f"are {first} to {last}," in message and "only ids up to 29" in message


def test_a_row_commit_version_in_the_future_is_found(tmp_path):
    [(file, message)] = findings_of(tmp_path, tracked("a", 0, version=1))
    assert file == "a" and "row commit version 1, which is after version 0" in message


def test_a_high_water_mark_that_is_not_a_number_is_found(tmp_path):
    [(file, message)] = findings_of(tmp_path, tracked("a", 0), high_water_mark='"x"')
    assert file is None and "holds no highest row id" in message


def test_a_table_without_row_tracking_needs_no_row_ids(tmp_path):
    assert findings_of(tmp_path, add("a"), tracked("b", 5), tracked("c", 5), configuration={}) == []
