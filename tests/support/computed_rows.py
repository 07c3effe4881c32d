"""The loss of rows that a command has computed once and keeps in executors."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame, SparkSession


def remove_computed_rows(spark: SparkSession) -> None:
    """Remove the rows that executors keep, as the loss of these executors does."""
    for rdd in spark.sparkContext._jsc.getPersistentRDDs().values():
        rdd.unpersist(True)


def lose_computed_rows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, module: ModuleType, *, times: int
) -> list[DataFrame]:
    """Make a command lose the rows that `compute_once` of `module` computes, for the first `times` times.

    Returns the list of the lost rows, which grows with each loss.
    """
    compute_once = module.compute_once
    losses: list[DataFrame] = []

    def compute_and_lose(*arguments: Any, **options: Any) -> DataFrame:
        computed_rows: DataFrame = compute_once(*arguments, **options)
        if len(losses) < times:
            losses.append(computed_rows)
            remove_computed_rows(spark)
        return computed_rows

    monkeypatch.setattr(module, "compute_once", compute_and_lose)
    return losses
