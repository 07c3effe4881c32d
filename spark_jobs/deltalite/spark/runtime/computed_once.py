"""Rows that are computed once for several uses.

The executors keep the rows, and the plan behind them is dropped. So the rows stay the same even if the source changes
or the query is non-deterministic. If an executor with some of the rows is lost, the query that reads them fails instead
of computing other rows (`is_loss_of_rows`). The command then replans.
"""

from __future__ import annotations

from contextlib import nullcontext

from pyspark.sql import DataFrame

from deltalite.spark.runtime.errors import computing_rows, reading_table


def compute_once(rows: DataFrame, *, reads_table: str | None = None) -> DataFrame:
    """Compute the rows now, and return the computed rows. Raises the errors of `computing_rows`.

    `reads_table` is the address of a table if the rows come from its files and from computed rows only. A file that
    cannot be read then raises the errors of `reading_table`.
    """
    with computing_rows(), nullcontext() if reads_table is None else reading_table(reads_table):
        return rows.localCheckpoint()
