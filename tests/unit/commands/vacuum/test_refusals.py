"""A vacuum rejects damaged and unsupported tables, and deletes nothing."""

from __future__ import annotations

import json
import shutil

import pytest

from deltalite.commands.vacuum import vacuum
from deltalite.errors import (
    CorruptLogError,
    DeltaLiteError,
    InvalidRequestError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from deltalite.protocol.file_names import LOG_DIR, commit_name
from deltalite.requests import VacuumRequest
from tests.support.tables import folder_content
from tests.unit.commands.vacuum.vacuuming import commit_add, write_file


def _damage_a_commit(history):
    (history.folder / commit_name(2)).write_text('{"add": {"path": 7}}\n')


def _delete_a_commit(history):
    history.append()
    history.checkpoint()
    (history.folder / commit_name(2)).unlink()


def _add_an_unknown_feature(history):
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["fromTheFuture"]}
    history._commit([{"protocol": protocol}], history.live)


def _delete_the_log(history):
    shutil.rmtree(history.folder / LOG_DIR)


def _add_an_invalid_vector(history):
    vector = {"storageType": "u", "pathOrInlineDv": "?", "sizeInBytes": 1, "cardinality": 1}
    commit_add(history, "x", deletionVector=vector)


def _set_an_invalid_property(history):
    metadata = json.loads((history.folder / commit_name(0)).read_text().splitlines()[-1])["metaData"]
    metadata["configuration"]["delta.deletedFileRetentionDuration"] = "a while"
    history._commit([{"metaData": metadata}], history.live)


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (_damage_a_commit, CorruptLogError, "path"),
        (_delete_a_commit, CorruptLogError, "lacks commit 2"),
        (_add_an_unknown_feature, UnsupportedFeatureError, "fromTheFuture"),
        (_delete_the_log, TableNotFoundError, "no Delta table"),
        (_add_an_invalid_vector, DeltaLiteError, "no uuid in Z85"),
        (_set_an_invalid_property, InvalidRequestError, "deletedFileRetentionDuration"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_unreadable_table_is_never_vacuumed(history, damage, error, message, mode):
    history.append()
    history.replace(None)
    damage(history)
    write_file(history, "orphan")
    history.advance_clock(24)
    before = folder_content(history.folder)
    for dry_run in (True, False):
        with pytest.raises(error, match=message):
            vacuum(
                None,
                VacuumRequest(table=str(history.folder), mode=mode, dry_run=dry_run),
                clock_ms=lambda: history.now_ms,
            )
    assert folder_content(history.folder) == before
