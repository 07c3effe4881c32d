"""After a random history and a vacuum, every version inside the retention has the same rows and changes as before.

A random history has appends by fast and slow jobs, replaced partitions, removed rows, recorded changes, restores,
orphan files, checkpoints, log cleanups, earlier vacuums, and pauses between them. `TableHistory` knows the rows of each
version. delta-rs also reads the table at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.commands.vacuum import vacuum
from deltalite.errors import VersionNotFoundError
from deltalite.protocol.properties import HOUR_MS
from deltalite.requests import RunIdentity, VacuumMode, VacuumRequest
from tests.support.fuzzing import examples
from tests.support.properties import FEED
from tests.support.table_history import DAYS, TableHistory
from tests.support.tables import delta_rs_arrow

Step = Callable[[TableHistory], object]
WEEK_H = 7 * 24
RETENTIONS = (0, 1, 5 * 24, WEEK_H, 20 * 24, 90 * 24)


def steps() -> st.SearchStrategy[Step]:
    """Draw a function that continues a history by one step."""
    hours = st.sampled_from([0, 1, 30, 100, WEEK_H + 1])
    changes = st.one_of(
        st.builds(lambda files, lag: lambda history: history.append(files, lag_hours=lag), st.integers(1, 3), hours),
        st.builds(
            lambda day, lag, dated: lambda history: history.replace(day, lag_hours=lag, dated=dated),
            st.sampled_from([*DAYS, None]),
            hours,
            st.booleans(),
        ),
        st.just(lambda history: history.delete_rows()),
        st.builds(lambda lag: lambda history: history.change(lag_hours=lag), hours),
        st.builds(lambda back: lambda history: history.restore(max(0, len(history.states) - back)), st.integers(1, 8)),
    )
    other_steps = st.one_of(
        st.builds(lambda h: lambda history: history.advance_clock(h), st.sampled_from([1, 12, 60, WEEK_H, 35 * 24])),
        st.builds(lambda age: lambda history: history.write_orphan(age_hours=age), hours),
        st.builds(lambda age: lambda history: history.write_staging_file(age_hours=age), hours),
        st.just(lambda history: history.checkpoint()),
        st.just(lambda history: history.clean()),
        st.builds(
            lambda mode, hours: lambda history: vacuum_history(history, mode, hours),
            st.sampled_from(VacuumMode), st.sampled_from([*RETENTIONS, None]),
        ),
    )  # fmt: skip
    return st.one_of(changes, other_steps)


def vacuum_history(history: TableHistory, mode: VacuumMode, hours: int | None) -> None:
    """Vacuum the table at the time of the history. A full vacuum follows if the log is too short for a lite vacuum."""
    request = VacuumRequest(
        table=str(history.folder), mode=mode, retention_hours=hours, confirm_short_retention=history.folder.name,
        identity=RunIdentity(app_id=f"run {len(history.states)}"),
    )  # fmt: skip
    try:
        vacuum(None, request, clock_ms=lambda: history.now_ms)
    except VersionNotFoundError:
        vacuum_history(history, VacuumMode.FULL, hours)
    history.record_library_commits()


@examples(12)
@given(
    history_steps=st.lists(steps(), min_size=3, max_size=14),
    mode=st.sampled_from(VacuumMode),
    hours=st.sampled_from([*RETENTIONS, None]),
)
@pytest.mark.slow
def test_versions_within_the_retention_stay_complete(history_steps, mode, hours):
    with tempfile.TemporaryDirectory() as folder:
        history = TableHistory(Path(folder, "t"), FEED)
        history.append(2)
        for step in history_steps:
            step(history)
        before = history.read()
        newest = len(history.states) - 1
        assert before[newest][0] == history.rows_of(newest)
        cutoff_ms = history.now_ms - (WEEK_H if hours is None else hours) * HOUR_MS
        first = history.current_at(cutoff_ms)
        vacuum_history(history, mode, hours)
        after = history.read()
        for version in (v for v in before if v >= first):
            rows, changes = before[version]
            assert after[version][0] == rows == history.rows_of(version), f"version {version} of {newest}"
            assert changes is None or version == first or after[version][1] == changes, f"changes of {version}"
        assert sorted(delta_rs_arrow(history.folder)["id"].to_pylist()) == history.rows_of(newest)
