"""The rows that audits reject: each row counts for all audits that it breaks, and the limits apply to each audit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.commands.common.rejected_rows import RejectedRows
from deltalite.errors import AuditFailedError
from deltalite.requests import Audit
from deltalite.spark.write.row_marks import mark_folder, true_conditions
from tests.unit.builders import struct

FIRST, SECOND = (Audit(name=name, rows=f"{name} < 0", level="quarantine", max_share=0.3) for name in ("a", "b"))


def rejected_rows(good_row_count, audits=(FIRST, SECOND), **row_counts):
    """The rejected rows with these numbers of rows by mark, such as `m01`."""
    return RejectedRows(
        root="/t", audits=audits, schema=struct(a="long", b="long"), good_row_count=good_row_count, mark_column="mark",
        row_counts={mark[1:]: count for mark, count in row_counts.items()}, scan=lambda _spark: None,
    )  # fmt: skip


def test_a_row_that_breaks_several_audits_counts_for_each_of_them():
    rejected = rejected_rows(90, m10=5, m01=3, m11=2)
    results = rejected.results()
    assert rejected.row_count == 10
    assert [(r.name, r.measured, r.rows, r.passed, r.level) for r in results.values()] == [
        ("a", 7, 100, True, "quarantine"), ("b", 5, 100, True, "quarantine"),
    ]  # fmt: skip
    rejected.check_limits(None)
    assert [result.measured for result in rejected_rows(0).results().values()] == [0, 0]


def test_a_share_above_the_limit_fails():
    with pytest.raises(AuditFailedError, match=r"1 of 2 audits .*'b' .*measured 7 of 17 rows.*Nothing was committed"):
        replace(rejected_rows(9, m10=1, m01=5, m11=2), audits=(FIRST, replace(SECOND, samples=0))).check_limits(None)


def test_audits_with_the_default_limit_together_reject_at_most_half_of_the_rows(caplog):
    default_a, default_b = (Audit(name=name, rows=f"{name} < 0", level="quarantine", samples=0) for name in ("a", "b"))
    explicit_b = replace(default_b, max_share=1)
    rejected_rows(5, (default_a, default_b), m10=3, m01=2).check_limits(None)
    rejected_rows(1, (default_a, default_b), m11=1).check_limits(None)
    rejected_rows(0, (default_a, explicit_b), m10=5, m01=5).check_limits(None)
    halves = tuple(replace(audit, max_share=0.5) for audit in (default_a, default_b))
    rejected_rows(0, halves, m10=5, m01=5).check_limits(None)
    rejected_rows(0, (default_a, default_b)).check_limits(None)
    with (
        caplog.at_level("INFO"),
        pytest.raises(AuditFailedError, match=r"'a', 'b' together reject 10 of 10 rows") as failure,
    ):
        rejected_rows(0, (default_a, default_b), m10=5, m01=5).check_limits(None)
    assert "quarantined" not in str(failure.value), "an earlier attempt may have stored rows"
    assert caplog.text.count("did not pass in") == 2


def test_marks_name_the_conditions_and_their_folder_has_an_unused_name():
    assert [true_conditions(mark) for mark in ("no", "10", "011")] == [[], [0], [1, 2]]
    assert mark_folder(struct(day="string"), ["day"]) == "rejected"
    assert mark_folder(struct(Rejected="string", rejected_="long"), []) == "rejected__"
