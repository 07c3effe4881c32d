"""Bit masks of many files, as an Arrow column of bytes.

`outcomes.py` computes with Python's operators on bit masks. The mask of one file is an `int`. `Masks` has the same
operators for a column with one mask per file. One operation on a million files takes about a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Masks:
    """One mask of up to eight bits per file. The other operand is a `Masks` of the same length, or one `int`."""

    array: pa.UInt8Array

    @classmethod
    def where(cls, flags: pa.BooleanArray, mask: int) -> Masks:
        """Return `mask` for each true flag, and 0 for each false or null flag."""
        return cls(pc.if_else(pc.fill_null(flags, False), _byte(mask), _byte(0)))

    def __and__(self, other: int | Masks) -> Masks:
        return Masks(pc.bit_wise_and(self.array, _operand(other)))

    def __or__(self, other: int | Masks) -> Masks:
        return Masks(pc.bit_wise_or(self.array, _operand(other)))

    def __xor__(self, other: int | Masks) -> Masks:
        return Masks(pc.bit_wise_xor(self.array, _operand(other)))

    def __lshift__(self, bits: int) -> Masks:
        return Masks(pc.shift_left(self.array, _byte(bits)))

    def __rshift__(self, bits: int) -> Masks:
        return Masks(pc.shift_right(self.array, _byte(bits)))

    __rand__ = __and__
    __ror__ = __or__


def has_bits(masks: int | Masks, count: int) -> pa.BooleanArray:
    """Return for each of `count` files whether its mask has any bit."""
    return pa.repeat(pa.scalar(bool(masks)), count) if isinstance(masks, int) else pc.not_equal(masks.array, 0)


def _operand(other: int | Masks) -> pa.UInt8Array | pa.UInt8Scalar:
    return other.array if isinstance(other, Masks) else _byte(other)


def _byte(mask: int) -> pa.UInt8Scalar:
    return pa.scalar(mask, pa.uint8())
