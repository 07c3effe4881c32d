"""The standard benchmarks measure the cases that they name, and stop if the sides have different results."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest


@pytest.mark.parametrize(
    ("rows", "other_rows"),
    [
        ([(1,)], [(2,)]),
        ([(10_000_000,)], [(10_000_001,)]),
        ([(1,)], []),
        ([(1, 2)], [(1,)]),
        ([(None,)], [(0,)]),
        ([(Decimal("1.01"),)], [(Decimal("1.02"),)]),
    ],
)
def test_a_suite_stops_if_two_sides_have_different_rows(rows, other_rows):
    from benchmarks.suites.suite import check_equal

    with pytest.raises(SystemExit, match=r"count: deltalite has the rows .*, and delta-rs has the rows"):
        check_equal("count", {"deltalite": rows, "delta-rs": other_rows})


def test_sides_may_round_quotients_differently():
    from benchmarks.suites.suite import check_equal

    check_equal("q59", {"deltalite": [(Decimal("0.33333333333"), "a")], "delta-rs": [(Decimal("0.333333"), "a")]})


def test_each_merge_of_the_merge_suite_has_the_matched_and_new_rows_of_its_name():
    from benchmarks.suites import merge

    assert len({(case.kind, case.name) for case in merge.CASES}) == 16
    orders = range(merge.FILES * 1_000)
    columns = {"wr_order_number": orders, "wr_item_sk": orders, "wr_return_quantity": [1] * len(orders)}
    parts = merge.split(pa.table(columns), merge.FILES)
    for case in merge.CASES:
        source, matched_rows, new_rows = merge.source_of(case, parts)
        rows_of_touched_files = case.files * len(orders)
        assert (matched_rows, new_rows) == (case.matched * rows_of_touched_files, case.new * rows_of_touched_files)
        keys = source["wr_order_number"].to_pylist()
        touched_files = {key // 1_000 for key in keys if key in orders}
        assert len(keys) == len(set(keys)) == matched_rows + new_rows
        assert sum(key in orders for key in keys) == matched_rows
        assert len(touched_files) <= round(case.files * merge.FILES)
