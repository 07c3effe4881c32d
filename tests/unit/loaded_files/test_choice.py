"""A run loads the oldest files that are not loaded, at least one, within its limits."""

from __future__ import annotations

import numpy as np
import pytest

from deltalite.loaded_files.choice import choose_files
from tests.unit.loaded_files.test_record import files

LISTED = files(("a", 5, 1_000), ("b", 10, 2_000), ("c", 10, 3_000), ("d", 1, 4_000))
IS_LOADED = np.array([True, False, False, False])


def choose(*, is_loaded=IS_LOADED, force=False, max_files=None, max_bytes=None):
    return choose_files(LISTED, is_loaded, force=force, max_files=max_files, max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("options", "expected", "remaining"),
    [
        ({}, "bcd", 0),
        ({"max_files": 2}, "bc", 1),
        ({"max_bytes": 20}, "bc", 1),
        ({"max_bytes": 1}, "b", 2),
        ({"max_files": 1, "max_bytes": 100}, "b", 2),
        ({"force": True}, "abcd", 0),
        ({"is_loaded": np.ones(4, np.bool_)}, "", 0),
        ({"is_loaded": np.ones(4, np.bool_), "max_bytes": 1}, "", 0),
    ],
)
def test_the_oldest_new_files_are_chosen(options, expected, remaining):
    choice = choose(**options)
    assert "".join(choice.files["address"].to_pylist()) == expected
    assert choice.metrics["numLoadedFiles"] == len(expected)
    assert choice.metrics["numRemainingFiles"] == remaining
    assert choice.metrics["numSkippedFiles"] == 4 - len(expected) - remaining


def test_the_metrics_describe_the_chosen_files():
    metrics = choose(max_files=2).metrics
    assert (metrics["minModificationTime"], metrics["maxModificationTime"]) == (2_000, 3_000)
    assert metrics["numLoadedBytes"] == 20
    assert "minModificationTime" not in choose(is_loaded=np.ones(4, np.bool_)).metrics


def test_a_forced_file_is_not_recorded_twice():
    assert choose(force=True).new_files["address"].to_pylist() == ["b", "c", "d"]
