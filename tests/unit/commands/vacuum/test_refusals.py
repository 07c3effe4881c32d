"""A vacuum rejects tables that this release does not support, and deletes nothing."""

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
from tests.support.tables import everything
from tests.unit.commands.vacuum.vacuuming import named, write_file


def _damaged_commit(history):
    (history.folder / commit_name(2)).write_text('{"add": {"path": 7}}\n')


def _missing_commit(history):
    history.append()
    history.checkpoint()
    (history.folder / commit_name(2)).unlink()


def _unknown_feature(history):
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["fromTheFuture"]}
    history._commit([{"protocol": protocol}], history.live)


def _no_table(history):
    shutil.rmtree(history.folder / LOG_DIR)


def _bad_vector(history):
    vector = {"storageType": "u", "pathOrInlineDv": "?", "sizeInBytes": 1, "cardinality": 1}
    named(history, "x", deletionVector=vector)


def _bad_property(history):
    metadata = json.loads((history.folder / commit_name(0)).read_text().splitlines()[-1])["metaData"]
    metadata["configuration"]["delta.deletedFileRetentionDuration"] = "a while"
    history._commit([{"metaData": metadata}], history.live)


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (_damaged_commit, CorruptLogError, "path"),
        (_missing_commit, CorruptLogError, "lacks commit 2"),
        (_unknown_feature, UnsupportedFeatureError, "fromTheFuture"),
        (_no_table, TableNotFoundError, "no Delta table"),
        (_bad_vector, DeltaLiteError, "no uuid in Z85"),
        (_bad_property, InvalidRequestError, "deletedFileRetentionDuration"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_unreadable_table_is_never_vacuumed(history, damage, error, message, mode):
    history.append()
    history.replace(None)
    damage(history)
    write_file(history, "orphan")
    history.wait(24)
    before = everything(history.folder)
    for dry_run in (True, False):
        with pytest.raises(error, match=message):
            vacuum(
                None,
                VacuumRequest(table=str(history.folder), mode=mode, dry_run=dry_run),
                clock_ms=lambda: history.now_ms,
            )
    assert everything(history.folder) == before
