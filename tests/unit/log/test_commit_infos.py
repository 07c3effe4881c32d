"""The provenance of commits is read newest first, down to the oldest commit that the log still has."""

from __future__ import annotations

from functools import partial

import pytest

from deltalite.log.commit_infos import commit_infos, newest_commit_infos
from deltalite.log.commit_times import InCommitSettings
from deltalite.protocol.file_names import commit_name
from tests.unit.builders import NOON_MS, add, commit_info, create, new_store, put_raw


@pytest.fixture
def store():
    """Versions 1 to 79 have a provenance, version 80 has none."""
    store = create(new_store())
    for version in range(1, 80):
        put_raw(store, version, [commit_info(operation=f"W{version}", inCommitTimestamp=NOON_MS + version)])
    put_raw(store, 80, [add("a")])
    return store


@pytest.mark.parametrize("read", [commit_infos, partial(newest_commit_infos, max_commits=1000)])
def test_commits_come_newest_first_until_a_deleted_commit(store, read):
    store.before = lambda operation, name: store.files.pop(commit_name(20), None) if operation == "read" else None
    commits = list(read(store, up_to_version=79, in_commit=InCommitSettings(first_version=30, enabled_at_ms=NOON_MS)))
    assert [commit.version for commit in commits] == list(range(79, 20, -1))
    assert [commit.info["operation"] for commit in commits[:2]] == ["W79", "W78"]
    assert commits[0].timestamp_ms == NOON_MS + 79
    assert commits[-1].timestamp_ms == store.files[commit_name(21)][1], "commit 21 is older than the enablement"


def test_a_search_reads_a_limited_number_of_commits_and_a_commit_may_lack_a_provenance(store):
    commits = list(newest_commit_infos(store, up_to_version=80, in_commit=None, max_commits=2))
    assert [(commit.version, commit.info.get("operation")) for commit in commits] == [(80, None), (79, "W79")]
    assert list(newest_commit_infos(store, up_to_version=80, in_commit=None, max_commits=0)) == []
