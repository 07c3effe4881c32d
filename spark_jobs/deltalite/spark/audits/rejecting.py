"""The conditions of audits of level `quarantine`, which a write evaluates before it writes a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column

from deltalite.protocol.schema import PrimitiveType, StructType
from deltalite.requests import Audit
from deltalite.spark.audits.resolving import error_builder
from deltalite.spark.expressions.sql import Expressions, no_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rejecting_conditions(
    spark: SparkSession, audits: Sequence[Audit], schema: StructType, later_columns: Collection[str]
) -> list[Column]:
    """Return the condition of each audit, which is true for a bad row.

    Args:
        spark: the session.
        audits: audits of the kind `rows`, which are resolved on `schema`.
        schema: the columns of the table.
        later_columns: columns that get their values after the rejected rows are left out.

    Raises:
        InvalidRequestError: a condition reads one of `later_columns`, or cannot be computed.
    """
    expressions = Expressions.of_request(no_rows(spark, schema))
    later_names = {name.lower(): name for name in later_columns}
    conditions = []
    for audit in audits:
        text = str(audit.rows)
        error_for = error_builder(audit, text)
        condition, names = expressions.value(text, PrimitiveType("boolean"), error_for, allows_non_determinism=False)
        for name in sorted(names & later_names.keys()):
            raise error_for(
                f"it reads the IDENTITY column '{later_names[name]}', and rejected rows get no value of this column."
            )
        conditions.append(condition)
    return conditions
