"""Audits, resolved against the columns of a table before a row is read or written.

An audit with wrong SQL or wrong columns is refused here, before the write. SQL of audits follows the rules for
expressions of a request (`expressions.sql`): no subquery, no window function, and no non-deterministic function, such
as `current_timestamp()` or `current_user()`. `rows` may not contain `*` for all columns.

Two faults are not found here:

- The SQL of a `rows` audit of level `quarantine` is wrong. `rejecting.py` resolves such audits.
- SQL fails for some of the rows, such as a division by zero. `measuring.py` then reports the error of the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError
from deltalite.protocol import properties as props
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.requests import Audit, AuditKind, AuditLevel, AuditScope
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import column_named, fields_named
from deltalite.spark.expressions.sql import ErrorBuilder, Expressions, no_rows
from deltalite.spark.reader.read import snapshot_at
from deltalite.spark.runtime.errors import first_line
from deltalite.storage.locations import is_same_table
from deltalite.storage.versioned_path import VersionedPath, resolve_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
_MS_PER_SECOND = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAudit:
    """An audit whose SQL and columns fit the audited table.

    - `aggregate`: the aggregate that measures the value; None for `unique`, `references`, `row_count`, and `rows` of
      level `quarantine`.
    - `refers_to_table`: whether `references` names the audited table itself, without a version.
    - `other_snapshot`: the snapshot of the other table; None without `references`, and if `refers_to_table`.
    """

    audit: Audit
    scope: AuditScope
    aggregate: Column | None = None
    refers_to_table: bool = False
    other_snapshot: Snapshot | None = None

    @property
    def reads_table(self) -> bool:
        """Whether the audit depends on the rows of the complete table."""
        return self.scope is AuditScope.TABLE or self.refers_to_table


def resolve_audits(
    spark: SparkSession, audits: Sequence[Audit], schema: StructType, table: str, *, has_new_rows: bool
) -> list[ResolvedAudit]:
    """Resolve the audits on rows of `schema`.

    `table` is the address of the audited table. `has_new_rows` is False for an operation that adds no rows. Audits that
    name the same version of another table share one snapshot of it. The operation itself resolves and measures audits
    of level `quarantine`, because its rejected rows are not rows of the table.

    Raises:
        InvalidRequestError: SQL is wrong, a column does not exist, or has a type that the audit cannot use.
        TableError: another table, or its version, cannot be read.
    """
    rows = no_rows(spark, schema)
    load_snapshot = cache(partial(snapshot_at, spark))
    resolved = []
    for audit in audits:
        scope = audit.scope(has_new_rows=has_new_rows)
        match audit.kind:
            case AuditKind.ROWS if audit.level is AuditLevel.QUARANTINE:
                resolved.append(ResolvedAudit(audit=audit, scope=scope))
            case AuditKind.ROWS | AuditKind.AGGREGATE | AuditKind.FRESHNESS:
                resolved.append(ResolvedAudit(audit=audit, scope=scope, aggregate=_aggregate(audit, rows, schema)))
            case AuditKind.UNIQUE:
                with _checking_types(audit):
                    repeated_key_row_count(rows, key_fields(audit, schema))
                resolved.append(ResolvedAudit(audit=audit, scope=scope))
            case AuditKind.REFERENCES:
                resolved.append(_resolved_reference(audit, scope, rows, schema, table, load_snapshot))
            case AuditKind.ROW_COUNT:
                resolved.append(ResolvedAudit(audit=audit, scope=scope))
    return resolved


def repeated_keys(rows: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """Return the keys that more than one row has: the columns `key0` and so on, and their number of rows as `rows`.

    A key with a NULL does not count.
    """
    keys = _complete_keys(rows, fields)
    counts = keys.groupBy(*keys.columns).agg(F.count(F.lit(1)).alias("rows"))
    return counts.where(F.col("rows") > 1)


def repeated_key_row_count(rows: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """Return a frame of one row, with the number of rows whose key another row has too; NULL if no key repeats."""
    return repeated_keys(rows, fields).agg(F.sum("rows"))


def rows_without_reference(
    rows: DataFrame, fields: Sequence[StructField], other_rows: DataFrame, other_fields: Sequence[StructField]
) -> DataFrame:
    """Return the values of `fields` that no row of `other_rows` has in `other_fields`.

    The columns are `key0` and so on. Rows with a NULL in `fields` are left out.
    """
    keys = _complete_keys(rows, fields)
    other_keys = other_rows.select(*[column_named(f.name).alias(f"other{n}") for n, f in enumerate(other_fields)])
    condition = F.lit(True)
    for number in range(len(fields)):
        condition = condition & (F.col(f"key{number}") == F.col(f"other{number}"))
    return keys.join(other_keys, condition, "left_anti")


def _complete_keys(rows: DataFrame, fields: Sequence[StructField]) -> DataFrame:
    """Return the values of `fields` as the columns `key0` and so on, without the rows that have a NULL in one of them.

    NaN is a value, which equals itself (`dropna` would also remove it).
    """
    keys = rows.select(*[column_named(field.name).alias(f"key{number}") for number, field in enumerate(fields)])
    return keys.where(reduce(and_, [F.col(name).isNotNull() for name in keys.columns]))


def key_fields(audit: Audit, schema: StructType) -> tuple[StructField, ...]:
    """Return the columns of `unique` or `references` in the audited table."""
    names = audit.unique if audit.kind is AuditKind.UNIQUE else tuple(audit.references)
    return _fields(audit, schema, names, "the table")


def reference_fields(
    audit: Audit, schema: StructType, other_schema: StructType
) -> tuple[tuple[StructField, ...], tuple[StructField, ...]]:
    """Return the columns of `references` in the audited table and in the other table."""
    other_names = tuple(audit.references.values())
    return key_fields(audit, schema), _fields(audit, other_schema, other_names, str(audit.in_table))


def _resolved_reference(
    audit: Audit,
    scope: AuditScope,
    rows: DataFrame,
    schema: StructType,
    table: str,
    load_snapshot: Callable[[VersionedPath], Snapshot],
) -> ResolvedAudit:
    address = resolve_version(str(audit.in_table), audit.version_as_of, None)
    has_version = address != VersionedPath(path=address.path)
    refers_to_table = not has_version and is_same_table(address.path, table)
    other_snapshot = None if refers_to_table else load_snapshot(address)
    other_schema = schema if other_snapshot is None else other_snapshot.schema
    fields, other_fields = reference_fields(audit, schema, other_schema)
    with _checking_types(audit):
        rows_without_reference(rows, fields, no_rows(rows.sparkSession, other_schema), other_fields)
    return ResolvedAudit(audit=audit, scope=scope, refers_to_table=refers_to_table, other_snapshot=other_snapshot)


def _aggregate(audit: Audit, rows: DataFrame, schema: StructType) -> Column:
    """Return the aggregate that measures the value of an audit."""
    if audit.kind is AuditKind.FRESHNESS:
        (field,) = _fields(audit, schema, (str(audit.freshness),), "the table")
        return _newest_ms(audit, field)
    text = str(getattr(audit, audit.kind))
    expressions, error_for = Expressions.of_request(rows), error_builder(audit, text)
    if audit.kind is AuditKind.ROWS:
        return F.count(F.when(expressions.condition(text, error_for), F.lit(1)))
    type_name = expressions.aggregate(text, error_for)
    has_limit = audit.min is not None or audit.max is not None
    if type_name != "boolean" and type_name not in _NUMBERS and not type_name.startswith("decimal"):
        raise error_for(f"it is {type_name}, and neither a number nor a boolean.")
    if has_limit is (type_name == "boolean"):
        raise error_for(
            "it is a boolean, which has no min or max." if has_limit else "it is a number, which needs min or max."
        )
    # As a double, the float 0.1 is 0.10000000149. Its text is 0.1.
    return F.expr(text).cast("string").cast("double") if type_name == "float" else F.expr(text)


def _newest_ms(audit: Audit, field: StructField) -> Column:
    """Return the newest value of a column in milliseconds since 1970 (UTC). The session's time zone does not matter."""
    newest = F.max(column_named(field.name))
    match field.type:
        case PrimitiveType("timestamp"):
            return F.unix_millis(newest)
        case PrimitiveType("timestamp_ntz"):
            seconds = F.hour(newest) * 3600 + F.minute(newest) * 60 + F.second(newest)
            return F.unix_date(newest.cast("date")).cast("long") * props.DAY_MS + seconds * _MS_PER_SECOND
        case PrimitiveType("date"):
            return F.unix_date(newest).cast("long") * props.DAY_MS
        case _:
            raise InvalidRequestError(
                f"freshness of the audit '{audit.name}' is the column '{field.name}' of the type {field.type}.",
                remedy="Name a column of dates or timestamps.",
            )


def _fields(audit: Audit, schema: StructType, names: Sequence[str], table: str) -> tuple[StructField, ...]:
    """Return the fields of these names. Raises `InvalidRequestError` if `table` lacks one of them."""
    return fields_named(
        schema,
        names,
        problem=lambda name: (
            f"{audit.kind} of the audit '{audit.name}' names the column '{name}', which {table} does not have."
        ),
        remedy="Name one of",
    )


def error_builder(audit: Audit, text: str) -> ErrorBuilder:
    """Return the error builder for SQL of an audit."""
    return lambda reason: InvalidRequestError(
        f"{audit.kind} of the audit '{audit.name}' is ({text}), which cannot be computed: {reason}",
        remedy="Correct the SQL of the audit.",
    )


@contextmanager
def _checking_types(audit: Audit) -> Iterator[None]:
    """Raise an `InvalidRequestError` if a frame of the block has wrong types. Spark analyzes new frames."""
    try:
        yield
    except AnalysisException as error:
        raise InvalidRequestError(
            f"{audit.kind} of the audit '{audit.name}' cannot be computed: {first_line(error)}",
            remedy="Name columns of other types, or write the check as `rows` or `aggregate`.",
        ) from error
