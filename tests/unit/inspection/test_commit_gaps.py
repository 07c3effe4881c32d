"""The usual time between the loads of a table."""

from __future__ import annotations

import os

import pytest

from deltalite.inspection.commit_gaps import usual_gap_ms, usual_gap_of
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, append_files, create

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("hours", "usual"),
    [
        ([], None),
        ([0], None),
        ([0, 1, 2], None),
        ([0, 1, 2, 3], 1),
        ([0, 24, 24.1, 48, 48.1, 72, 72.1], 23.9),  # an optimize after each load
        ([0, 1, 2, 3, 15, 16, 17], 1),  # an outage
        ([5, 5, 5, 5, 5], None),  # a copied log
        ([0, 0.1, 0.1, 0.1, 24], None),
    ],
)
def test_gaps_inside_a_load_do_not_count(hours, usual):
    gap = usual_gap_of([round(hour * HOUR) for hour in hours])
    assert (None if gap is None else round(gap / HOUR, 1)) == usual


def test_commits_before_a_checkpoint_are_listed_if_few_follow_it(tmp_path):
    store = append_files(create(LocalLogStore(str(tmp_path / "t"))), 30)
    for version in range(31):
        os.utime(tmp_path / "t" / commit_name(version), (version * 3600, version * 3600))
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    snapshot = Snapshot.load(store)
    assert snapshot.segment.commits == ()
    assert usual_gap_ms(snapshot) == HOUR
    os.utime(tmp_path / "t" / commit_name(8), (0, 0))  # older than the newest 21 commits
    assert usual_gap_ms(Snapshot.load(store)) == HOUR
    for version in range(30):
        (tmp_path / "t" / commit_name(version)).unlink()
    assert usual_gap_ms(Snapshot.load(store)) is None
