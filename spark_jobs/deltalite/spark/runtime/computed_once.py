"""Rows that are computed once for several uses.

The executors keep the rows, and the plan behind them is dropped. So the rows stay the same even if the source changes
or the query is non-deterministic. If an executor with some of the rows is lost, the query that reads them fails instead
of computing other rows (`is_loss_of_rows`). The command then replans.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltalite.spark.runtime.errors import computing_rows


def compute_once(rows: DataFrame) -> DataFrame:
    """Compute the rows now, and return the computed rows. Raises the errors of `computing_rows`."""
    with computing_rows():
        return rows.localCheckpoint()
