"""Sample rows of audits that did not pass: one bounded query for each audit, on the rows that it examined.

- `rows`: bad rows with all their columns. The columns that the SQL names come first.
- `unique`: the most frequent keys, each with its number of rows.
- `references`: the most frequent values that the other table lacks, each with its number of rows.

An audit has no samples if no row is bad, or if its SQL cannot be computed for a row. If the query for the samples
fails, only the samples are missing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import DeltaLiteError
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltalite.requests import Audit, AuditKind, AuditLevel, AuditScope
from deltalite.results import AuditResult
from deltalite.spark.audits.measuring import AuditedRows, bad_references
from deltalite.spark.audits.resolving import ResolvedAudit, key_fields, repeated_keys
from deltalite.spark.columns.names import column_named
from deltalite.spark.runtime.errors import SPARK_ERRORS, first_line
from deltalite.txn.audit_samples import MAX_READ_CHARACTERS, sample_text, within_total

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_MAX_SAMPLED_AUDITS, _MAX_COLUMNS, _MAX_BYTES = 20, 50, 32
_JSON_TYPES = frozenset({"boolean", "byte", "short", "integer", "long", "float", "double"})
_Row = Mapping[str, object]


def sample_rows(
    spark: SparkSession,
    audits: Sequence[ResolvedAudit],
    results: Mapping[str, AuditResult],
    scopes: Mapping[AuditScope, AuditedRows],
    schema: StructType,
) -> dict[str, tuple[str, ...]]:
    """Return samples of the audits that did not pass, as lines of JSON by the names of the audits.

    Accepted audits, and audits above the limit of `_MAX_SAMPLED_AUDITS`, have no samples.

    Args:
        spark: the session.
        audits: the audits, resolved on `schema`.
        results: their results by name.
        scopes: the rows of each scope that the audits examine.
        schema: the columns of the rows.
    """
    sampled_audits = [resolved for resolved in audits if _has_samples(resolved.audit, results[resolved.audit.name])]
    sampled_audits.sort(key=lambda resolved: resolved.audit.level is AuditLevel.WARN)  # the failed audits come first
    frame = cache(lambda scope: scopes[scope].frame())
    samples = {}
    for resolved in sampled_audits[:_MAX_SAMPLED_AUDITS]:
        try:
            rows = _sample(spark, resolved, frame, schema)
        except (*SPARK_ERRORS, DeltaLiteError) as error:
            reason = error.problem if isinstance(error, DeltaLiteError) else first_line(error)
            _log.warning("Could not read sample rows of the audit '%s': %s", resolved.audit.name, reason)
            continue
        samples[resolved.audit.name] = list(map(sample_text, rows))
    return within_total(samples)


def _has_samples(audit: Audit, result: AuditResult) -> bool:
    has_bad_value = not result.passed and result.error is None and result.accepted_by is None
    return has_bad_value and audit.sample_count > 0 and bool(result.measured)


def _sample(
    spark: SparkSession, resolved: ResolvedAudit, frame: Callable[[AuditScope], DataFrame], schema: StructType
) -> list[_Row]:
    audit, rows = resolved.audit, frame(resolved.scope)
    if audit.kind is AuditKind.ROWS:
        fields = _shown_fields(schema, str(audit.rows))
        columns = [_shown_column(column_named(field.name), field.type) for field in fields]
        selected = rows.where(F.expr(str(audit.rows)).cast("boolean")).select(*_numbered(columns))
        sampled = selected.limit(audit.sample_count).collect()
        return [dict(zip([field.name for field in fields], row, strict=True)) for row in sampled]
    keys = key_fields(audit, schema)
    if audit.kind is AuditKind.UNIQUE:
        counts = repeated_keys(rows, keys)
    else:
        values = bad_references(spark, resolved, rows, partial(frame, AuditScope.TABLE), schema)
        counts = values.groupBy(*values.columns).agg(F.count(F.lit(1)).alias("rows"))
    return _most_frequent(counts, keys, audit.sample_count)


def _most_frequent(counts: DataFrame, fields: Sequence[StructField], limit: int) -> list[_Row]:
    """Return the most frequent keys of a frame of keys and their row counts."""
    keys = [_shown_column(F.col(f"key{number}"), field.type) for number, field in enumerate(fields)]
    top = counts.orderBy(F.col("rows").desc()).limit(limit)
    sampled = top.select(*_numbered(keys), F.col("rows")).collect()
    names = [*(field.name for field in fields), "number of rows"]
    return [dict(zip(names, row, strict=True)) for row in sampled]


def _shown_fields(schema: StructType, sql: str) -> list[StructField]:
    """Return the columns of a sample row: the columns that the SQL names come first. The others follow in order."""

    def is_named(field: StructField) -> bool:
        return re.search(rf"(?<!\w){re.escape(field.name)}(?!\w)", sql, re.IGNORECASE) is not None

    return sorted(schema.fields, key=lambda field: not is_named(field))[:_MAX_COLUMNS]


def _shown_column(column: Column, data_type: DataType) -> Column:
    """Return the value of a column as a number, a boolean, or the beginning of its text.

    The text of a nested value is JSON, because the redaction finds secrets by the names of fields.
    """
    match data_type:
        case PrimitiveType(name) if name in _JSON_TYPES:
            return column
        case PrimitiveType("binary"):
            return F.hex(F.substring(column, 1, _MAX_BYTES))
        case StructType() | MapType() | ArrayType():
            return F.substring(F.to_json(column), 1, MAX_READ_CHARACTERS)
        case _:
            return F.substring(column.cast("string"), 1, MAX_READ_CHARACTERS)


def _numbered(columns: Sequence[Column]) -> list[Any]:
    return [column.alias(str(number)) for number, column in enumerate(columns)]
