"""The Hilbert curve as a table of states, with which Spark expressions compute the place of a row bit by bit.

A point has a number in each dimension. The first step takes the highest bit of each number, and each later step takes
the next bit. A step gives one bit of the place for each dimension. The state says how the curve is turned and mirrored
in the current part of the space.
Consecutive places always belong to neighbouring points. A Z curve does not guarantee this.

C. Hamilton, A. Rau-Chaplin: Compact Hilbert Indices, 2008 (the transforms of a sub-cube by entry point and direction).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, kw_only=True)
class HilbertTable:
    """The steps of the curve in `dimensions` dimensions.

    `digits` has the bits of the place that a step gives, and `next_states` has the state after the step. The index of a
    step is `state * 2**dimensions + bits`. The first dimension has the highest of the `bits`. The first state is 0.
    """

    dimensions: int
    digits: tuple[int, ...]
    next_states: tuple[int, ...]


@cache
def hilbert_table(dimensions: int) -> HilbertTable:
    """Return the table for 2 or more dimensions. It has at most `dimensions * 4**dimensions` steps."""
    size = 2**dimensions
    states = [(0, 0)]  # the entry point of the curve in the sub-cube, and its direction
    state_numbers = {states[0]: 0}
    digits: list[int] = []
    next_states: list[int] = []
    for entry, direction in states:  # the loop adds more states to the list
        for bits in range(size):
            digit = _inverse_gray(_rotate_right(bits ^ entry, direction + 1, dimensions))
            new_entry = entry ^ _rotate_left(_entry_point(digit), direction + 1, dimensions)
            new_direction = (direction + _direction(digit, dimensions) + 1) % dimensions
            state = (new_entry, new_direction)
            if state not in state_numbers:
                state_numbers[state] = len(states)
                states.append(state)
            digits.append(digit)
            next_states.append(state_numbers[state])
    return HilbertTable(dimensions=dimensions, digits=tuple(digits), next_states=tuple(next_states))


def _gray(number: int) -> int:
    return number ^ (number >> 1)


def _inverse_gray(code: int) -> int:
    number = code
    while code:
        code >>= 1
        number ^= code
    return number


def _entry_point(digit: int) -> int:
    """Return the corner at which the curve enters the sub-cube of a digit."""
    return 0 if digit == 0 else _gray(2 * ((digit - 1) // 2))


def _direction(digit: int, dimensions: int) -> int:
    """Return the dimension along which the curve crosses the sub-cube of a digit."""
    if digit == 0:
        return 0
    changes = digit - 1 if digit % 2 == 0 else digit
    return _trailing_ones(changes) % dimensions


def _trailing_ones(number: int) -> int:
    count = 0
    while number & 1:
        number >>= 1
        count += 1
    return count


def _rotate_right(bits: int, places: int, width: int) -> int:
    places %= width
    all_bits: int = (1 << width) - 1
    return (bits >> places | bits << (width - places)) & all_bits


def _rotate_left(bits: int, places: int, width: int) -> int:
    return _rotate_right(bits, width - places % width, width)
