"""What is done differently with few rows, where their number is known."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

# In each executor, and for a moment in the driver. Spark's own bound is on what it believes to know of sizes.
_MOST_BROADCAST_BYTES = 64 * 1024 * 1024
_MOST_GATHERED_BYTES = 128 * 1024 * 1024


def broadcast_if_small(frame: DataFrame, count: int) -> DataFrame:
    """The frame of `count` rows, which goes to every executor where it is small enough for that."""
    return F.broadcast(frame) if _size(frame, count) <= _MOST_BROADCAST_BYTES else frame


def gathered(frame: DataFrame, count: int) -> DataFrame:
    """The frame of up to `count` rows, in one partition where they are no more than fit into one file."""
    return frame.repartition(1) if _size(frame, count) <= _MOST_GATHERED_BYTES else frame


def _size(frame: DataFrame, count: int) -> int:
    java: Any = frame._jdf
    size: int = count * java.schema().defaultSize()
    return size
