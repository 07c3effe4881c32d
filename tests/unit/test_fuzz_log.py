"""A damaged log gives the right table or a typed error: never a wrong table, another exception or a hang."""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

import pytest
from hypothesis import event, given, note
from hypothesis import strategies as st

from deltalite import table as table_module
from deltalite import watch
from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import DeltaLiteError
from deltalite.inspection.findings import FindingKind, Severity
from deltalite.inspection.verify import verify
from deltalite.requests import RunIdentity
from deltalite.snapshot import Snapshot
from deltalite.table import DeltaTable
from tests.support.fuzzing import SEEDS, examples, seed_files, state_of, store_of, value_or_library_error
from tests.support.golden import MANIFEST
from tests.support.log_oracle import readings
from tests.support.mutations import mutate_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MANIFEST.is_file(), reason="the golden tables are missing"),
]
seeds = st.sampled_from(SEEDS)
randoms = st.randoms(use_true_random=False)


def is_commit(name):
    return name.endswith(".json") and "checkpoint" not in name


def is_checkpoint(name):
    return "checkpoint" in name and not name.endswith("_last_checkpoint")


def is_checksum(name):
    return name.endswith(".crc")


@cache
def state_of_seed(name):
    return readings(seed_files(name))[0]


def state(store, version=None):
    return state_of(Snapshot.load(store, version))


def check(name, files, allowed, changes):
    """Check that the damaged log gives an allowed state or an error of the library."""
    note(f"{name}: {changes}")
    outcome = value_or_library_error(lambda: state(store_of(name, files)))
    event(f"{changes[0][0] if changes else ''} {type(outcome).__name__}")
    assert isinstance(outcome, DeltaLiteError) or outcome in allowed, difference(outcome, allowed)


def difference(actual, allowed):
    """Return the differences between the state and each allowed state. The `repr` of a state would fill screens."""
    return [list(_differing(actual, state)) for state in allowed]


def _differing(actual, expected):
    for key in actual.keys() | expected.keys():
        actual_part, expected_part = actual.get(key), expected.get(key)
        if isinstance(actual_part, dict) and isinstance(expected_part, dict):
            yield from _differing(actual_part, expected_part)
        elif actual_part != expected_part:
            yield key, actual_part, expected_part


@pytest.mark.parametrize("name", SEEDS)
def test_the_oracle_and_the_library_agree_on_undamaged_logs(name):
    files = seed_files(name)
    assert state(store_of(name)) == readings(files)[0]
    for version in range(30):
        outcome = value_or_library_error(lambda version=version: state(store_of(name), version))
        states = readings(files, version)
        if states:
            assert outcome == states[0]


@given(name=seeds, rnd=randoms)
@examples(250)
def test_a_damaged_commit_gives_a_reading_of_the_oracle_or_an_error(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name), is_commit)
    undamaged = [state_of_seed(name)]
    allowed = readings(files)
    check(name, files, allowed or undamaged, changes)


@given(name=seeds, rnd=randoms)
@examples(200)
def test_a_damaged_checkpoint_gives_a_reading_of_the_oracle_or_is_skipped(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name), is_checkpoint)
    check(name, files, [*readings(files), state_of_seed(name)], changes)


@given(name=seeds, rnd=randoms)
@examples(80)
def test_a_damaged_hint_never_overrides_the_log(name, rnd):
    base = {"_delta_log/_last_checkpoint": b'{"version":1,"size":5}', **seed_files(name)}
    files, changes = mutate_files(rnd, base, lambda name: name.endswith("_last_checkpoint"))
    note(f"{name}: {changes}")
    assert value_or_library_error(lambda: state(store_of(name, files))) == state_of_seed(name)


@given(name=st.sampled_from([name for name in SEEDS if any(map(is_checksum, seed_files(name)))] or [""]), rnd=randoms)
@examples(80)
def test_a_wrong_checksum_never_changes_the_state(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name), is_checksum)
    note(f"{name}: {changes}")
    outcome = value_or_library_error(lambda: state(store_of(name, files)))
    assert isinstance(outcome, DeltaLiteError) or outcome == state_of_seed(name)


@given(name=seeds, rnd=randoms)
@examples(100)
def test_every_entry_point_gives_a_value_or_an_error_of_the_library(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name))
    note(f"{name}: {changes}")
    store = store_of(name, files)
    with patch.object(table_module, "open_store", lambda _address, **_options: store):
        table = value_or_library_error(lambda: DeltaTable("/t"))
        if not isinstance(table, DeltaLiteError):
            for call in (
                table.files, table.history, table.detail, lambda: table.schema, table.to_arrow, repr,
                lambda: list(table.to_batches()), lambda: list(table.changes(0)), lambda: table.history(1),
            ):  # fmt: skip
                value_or_library_error(lambda call=call: call(table) if call is repr else call())
        for version in (0, 1, 5):
            value_or_library_error(lambda version=version: DeltaTable("/t", version=version).files())
        for moment in ("1970-01-01", "2023-11-14T22:13:20.005Z", "2024-01-01", "9999-12-31"):
            value_or_library_error(lambda moment=moment: DeltaTable("/t", timestamp=moment).to_arrow())


@given(name=seeds, rnd=randoms)
@examples(100)
def test_watching_a_damaged_log_gives_a_value_or_an_error_of_the_library(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name))
    note(f"{name}: {changes}")
    store = store_of(name, files)
    conditions = (
        CommitCondition(),
        CommitCondition(operations=["NEVER"], data_change_only=False),
        CommitCondition(partition={"part": "x"}),
        CommitCondition(app_id="nobody"),
    )
    for call in (
        lambda: watch.latest_version(store),
        lambda: watch.version_at(store, 1_700_000_000_005),
        *(lambda c=c: watch.poll(store, LogPosition(version=-1), c) for c in conditions),
        lambda: watch.find_run(store, RunIdentity(app_id="nobody")),
    ):
        value_or_library_error(call)


@given(name=seeds, rnd=randoms)
@examples(120)
def test_a_damaged_log_that_passes_verify_is_readable(name, rnd):
    files, changes = mutate_files(rnd, seed_files(name))
    note(f"{name}: {changes}")
    report = value_or_library_error(lambda: verify(store_of(name, files)))
    # The store lists no files outside its log, so all data files seem to be missing.
    if not isinstance(report, DeltaLiteError) and not [
        kind for kind in report.counts if kind.severity is Severity.ERROR and kind is not FindingKind.MISSING_FILE
    ]:
        assert not isinstance(value_or_library_error(lambda: state(store_of(name, files))), DeltaLiteError)
