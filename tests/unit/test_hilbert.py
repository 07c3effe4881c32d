"""The Hilbert curve visits each point once, and each of its steps leads to a neighbouring point."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from deltalite.spark.layout.hilbert import hilbert_table


def position_on_curve(point, bits):
    """The position of a point on the curve, as the Spark expressions compute it."""
    table, state, result = hilbert_table(len(point)), 0, 0
    for bit in reversed(range(bits)):
        index = state
        for coordinate in point:
            index = index << 1 | (coordinate >> bit & 1)
        result = result << table.dimensions | table.digits[index]
        state = table.next_states[index]
    return result


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 1), (2, 5), (3, 1), (3, 3), (4, 1), (4, 2), (5, 2)])
def test_the_curve_visits_each_point_once_and_moves_to_a_neighbour(dimensions, bits):
    points = {position_on_curve(point, bits): point for point in product(range(2**bits), repeat=dimensions)}
    assert sorted(points) == list(range(2 ** (bits * dimensions)))
    path = [points[position] for position in sorted(points)]
    steps = {tuple(sorted(abs(a - b) for a, b in zip(*neighbours, strict=True))) for neighbours in pairwise(path)}
    assert steps == {(0,) * (dimensions - 1) + (1,)}


def test_the_table_of_four_dimensions_is_small():
    table = hilbert_table(4)
    assert len(table.digits) == len(table.next_states) <= 4 * 4**4
