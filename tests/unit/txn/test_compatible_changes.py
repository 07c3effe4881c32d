"""Changes of a table's protocol and metadata under which files that were written before stay valid."""

from __future__ import annotations

import dataclasses

import pytest

from deltalite.protocol.actions import Protocol
from deltalite.txn.compatible_changes import files_stay_valid
from tests.unit.builders import PROTOCOL, metadata, struct

OLD = metadata({"delta.isolationLevel": "Serializable", "k": "v"})
NEWER = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "invariants"))
DATED = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "inCommitTimestamp", "invariants")
)


def with_properties(**properties):
    named = {f"delta.{key}": value for key, value in properties.items()}
    return dataclasses.replace(OLD, configuration={**OLD.configuration, **named})


@pytest.mark.parametrize(
    ("protocol", "changed"),
    [
        (PROTOCOL, OLD),
        (PROTOCOL, dataclasses.replace(OLD, id="made by another", description="x")),
        (PROTOCOL, with_properties(appendOnly="true")),
        (PROTOCOL, with_properties(isolationLevel="WriteSerializable")),
        (PROTOCOL, with_properties(dataSkippingNumIndexedCols="3")),
        (PROTOCOL, with_properties(requireCheckpointProtectionBeforeVersion="3")),
        (NEWER, with_properties(appendOnly="true")),
        (DATED, with_properties(enableInCommitTimestamps="true")),
    ],
)
def test_changes_that_do_not_concern_files_are_compatible(protocol, changed):
    assert files_stay_valid(PROTOCOL, protocol, OLD, changed)


@pytest.mark.parametrize(
    ("protocol", "changed"),
    [
        (PROTOCOL, metadata(OLD.configuration, struct(id="long", day="string", more="long"))),
        (PROTOCOL, metadata(OLD.configuration, struct(id="integer", day="string"))),
        (PROTOCOL, dataclasses.replace(OLD, partition_columns=("day",))),
        (PROTOCOL, with_properties(**{"columnMapping.mode": "name"})),
        (PROTOCOL, with_properties(**{"constraints.positive": "id > 0"})),
        (PROTOCOL, with_properties(somethingNew="true")),
        (Protocol(min_reader_version=1, min_writer_version=1), OLD),
    ],
)
def test_changes_that_concern_rows_or_files_are_not_compatible(protocol, changed):
    assert not files_stay_valid(PROTOCOL, protocol, OLD, changed)
