"""A lite vacuum reads only the log, and is rejected if the log is not sufficient."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest

from deltalite.errors import (
    VersionNotFoundError,
)
from deltalite.protocol.file_names import LAST_VACUUM, commit_name
from tests.support.tables import folder_content
from tests.unit.commands.vacuum.vacuuming import OLD_H, run_vacuum, vacuum_and_list_deleted, write_file


def test_a_lite_vacuum_deletes_files_that_commits_removed_since_the_last_vacuum(history):
    history.append(2)
    history.delete_rows()
    history.change()
    history.delete_rows()
    history.replace(None)
    orphan = write_file(history, "orphan")
    live = {unquote(f.add["path"]) for f in history.live.values()}
    history.advance_clock(OLD_H)
    run_vacuum(history, mode="lite")
    assert history.files() == {orphan} | live
    assert json.loads((history.folder / LAST_VACUUM).read_text()) == {"latestCommitVersionOutsideOfRetentionWindow": 5}
    assert vacuum_and_list_deleted(history, mode="lite") == set()
    history.replace(None)
    history.advance_clock(OLD_H)
    assert vacuum_and_list_deleted(history, mode="lite") == live


def test_a_lite_vacuum_deletes_only_files_that_a_full_vacuum_deletes(history):
    paths = ["_delta_log/00000000000000000000.json", "_x/f", "../outside", ".hidden", "", ".", "/", "a/../../x"]
    for path in ("_x/f", ".hidden"):
        write_file(history, path)
    (history.folder.parent / "outside").write_bytes(b"x")
    history._commit([{"remove": {"path": p, "dataChange": True, "deletionTimestamp": 1}} for p in paths], {})
    history.advance_clock(OLD_H)
    before = folder_content(history.folder.parent)
    run_vacuum(history, mode="lite")
    after = folder_content(history.folder.parent)
    assert {name: content for name, content in after.items() if name in before} == before


def test_a_lite_vacuum_of_a_cleaned_up_log_is_rejected_until_a_full_vacuum_has_run(history):
    history.append()
    history.replace(None)
    history.advance_clock(40 * 24)
    history.checkpoint()
    history.append()
    history.advance_clock(OLD_H)
    history.clean()
    assert not (history.folder / commit_name(0)).exists()
    with pytest.raises(VersionNotFoundError, match=r"needs all commits.*begins with version 2"):
        run_vacuum(history, mode="lite")
    run_vacuum(history)
    history.replace(None)
    history.advance_clock(OLD_H)
    assert len(vacuum_and_list_deleted(history, mode="lite")) == 2
