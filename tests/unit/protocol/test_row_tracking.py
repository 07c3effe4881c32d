"""The names of the columns that preserve row ids and row commit versions."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import CorruptLogError, InvalidRequestError
from deltalite.protocol.actions import Protocol
from deltalite.protocol.column_mapping import PHYSICAL_NAME
from deltalite.protocol.row_tracking import RowIdColumns, row_id_columns, with_row_id_columns
from tests.unit.builders import metadata

TRACKED = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata", "rowTracking"))
UNTRACKED = Protocol(min_reader_version=1, min_writer_version=2)
ENABLED = {"delta.enableRowTracking": "true"}
ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
COMMIT_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
ID_FIELD = {"name": "id", "type": "long", "nullable": True, "metadata": {PHYSICAL_NAME: "col-1"}}
SCHEMA_WITH_ID = json.dumps({"type": "struct", "fields": [ID_FIELD]})


def test_a_table_with_row_tracking_gets_names_that_no_other_table_has_and_keeps_them():
    first, second = (with_row_id_columns(TRACKED, metadata(ENABLED)) for _ in range(2))
    columns = row_id_columns(TRACKED, first)
    assert columns.row_id.startswith("_row-id-col-") and columns.commit_version.startswith("_row-commit-version-col-")
    assert set(columns.names).isdisjoint(row_id_columns(TRACKED, second).names)
    assert with_row_id_columns(TRACKED, first) == first


@pytest.mark.parametrize(
    ("protocol", "configuration"),
    [(TRACKED, {}), (UNTRACKED, ENABLED), (TRACKED, {"delta.enableRowTracking": "false"})],
)
def test_a_table_without_row_tracking_has_no_names(protocol, configuration):
    table_metadata = metadata(configuration)
    assert with_row_id_columns(protocol, table_metadata) == table_metadata
    assert row_id_columns(protocol, table_metadata) is None


def test_row_tracking_cannot_be_enabled_and_suspended():
    with pytest.raises(InvalidRequestError, match="both true"):
        with_row_id_columns(TRACKED, metadata({**ENABLED, "delta.rowTrackingSuspended": "true"}))


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({}, "do not name two columns"),
        ({ROW_ID: "a"}, "do not name two columns"),
        ({ROW_ID: "a", COMMIT_VERSION: ""}, "do not name two columns"),
        ({ROW_ID: "a", COMMIT_VERSION: "A"}, "do not name two columns"),
        ({ROW_ID: "a", COMMIT_VERSION: "ID"}, "has a column 'id'"),
        ({ROW_ID: "col-1", COMMIT_VERSION: "b"}, "has a column 'col-1'"),
    ],
)
def test_missing_and_taken_names_are_an_error(names, problem):
    with pytest.raises(CorruptLogError, match=problem):
        row_id_columns(TRACKED, metadata({**ENABLED, **names}, schema_string=SCHEMA_WITH_ID))


def test_the_metadata_names_the_columns_of_row_tracking():
    table_metadata = metadata({**ENABLED, ROW_ID: "a", COMMIT_VERSION: "b"}, schema_string=SCHEMA_WITH_ID)
    assert row_id_columns(TRACKED, table_metadata) == RowIdColumns(row_id="a", commit_version="b")
