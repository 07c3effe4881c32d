"""The history of a table names the quarantine of a run, and values of other programs count as absent."""

from __future__ import annotations

import pytest

from deltalite.results import QuarantineResult
from deltalite.txn.quarantine import QUARANTINED_ROWS, quarantine_of, quarantine_parameters


@pytest.mark.parametrize("version", [None, 0, 7])
def test_a_commit_gives_back_the_quarantine_of_its_run(version):
    quarantine = QuarantineResult(table="s3://lake/bad", version=version, rows=2)
    assert quarantine_of(quarantine_parameters(quarantine), {QUARANTINED_ROWS: 2}) == quarantine


@pytest.mark.parametrize("parameters", [None, {}, {"quarantine": 5}, {"other": "x"}])
def test_parameters_without_a_valid_quarantine_give_none(parameters):
    assert quarantine_of(parameters, {QUARANTINED_ROWS: 2}) is None


def test_a_version_that_is_no_number_counts_as_absent():
    parameters = {"quarantine": "/q", "quarantineVersion": "x"}
    assert quarantine_of(parameters, {QUARANTINED_ROWS: 1}) == QuarantineResult(table="/q", version=None, rows=1)
    assert quarantine_of({"quarantine": "/q"}, {}) is None
