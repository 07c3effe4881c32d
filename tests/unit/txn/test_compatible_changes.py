"""Compatible changes of protocol and metadata: the files that were written before such a change stay valid."""

from __future__ import annotations

import dataclasses

import pytest

from deltalite.protocol.actions import Protocol
from deltalite.txn.compatible_changes import files_stay_valid
from tests.unit.builders import PROTOCOL, metadata, struct

OLD = metadata({"delta.isolationLevel": "Serializable", "k": "v"})
NEWER_PROTOCOL = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "invariants"))
TIMESTAMP_PROTOCOL = Protocol(
    min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "inCommitTimestamp", "invariants")
)


def with_properties(**properties):
    delta_properties = {f"delta.{key}": value for key, value in properties.items()}
    return dataclasses.replace(OLD, configuration={**OLD.configuration, **delta_properties})


@pytest.mark.parametrize(
    ("protocol", "new_metadata"),
    [
        (PROTOCOL, OLD),
        (PROTOCOL, dataclasses.replace(OLD, id="made by another", description="x")),
        (PROTOCOL, with_properties(appendOnly="true")),
        (PROTOCOL, with_properties(isolationLevel="WriteSerializable")),
        (PROTOCOL, with_properties(dataSkippingNumIndexedCols="3")),
        (PROTOCOL, with_properties(requireCheckpointProtectionBeforeVersion="3")),
        (NEWER_PROTOCOL, with_properties(appendOnly="true")),
        (TIMESTAMP_PROTOCOL, with_properties(enableInCommitTimestamps="true")),
    ],
)
def test_changes_that_do_not_concern_files_are_compatible(protocol, new_metadata):
    assert files_stay_valid(PROTOCOL, protocol, OLD, new_metadata)


@pytest.mark.parametrize(
    ("protocol", "new_metadata"),
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
def test_changes_that_concern_rows_or_files_are_not_compatible(protocol, new_metadata):
    assert not files_stay_valid(PROTOCOL, protocol, OLD, new_metadata)
