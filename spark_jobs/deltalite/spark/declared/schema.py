"""The schema that a task declares in SQL, in the syntax of CREATE TABLE.

Besides types, the text may have NOT NULL, COMMENT, DEFAULT, GENERATED ALWAYS AS (…), and GENERATED … AS IDENTITY.
Spark's parser reads the text. The protocol defines the metadata keys: Default Columns, Generated Columns, Identity
Columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from deltalite.errors import CorruptLogError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol import identity_columns as identity
from deltalite.protocol.column_rules import DEFAULT, GENERATION
from deltalite.protocol.schema import (
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    contains_type,
    parse_schema,
)
from deltalite.protocol.schema_evolution import VOID
from deltalite.spark.runtime.errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMENT = "comment"
_COLLATIONS = "__COLLATIONS"


def declared_schema(spark: SparkSession, ddl: str) -> StructType:
    """Return the schema that the text declares.

    The metadata of a column has its comment, its default, its generation expression or its identity.

    Raises:
        InvalidRequestError: the text is not a list of columns, has a constraint, or gives a default to a generated
            column.
        SchemaMismatchError: this release cannot store a column as declared, or two names are equal, ignoring case.
    """
    plan = _parse(spark, ddl)
    columns = plan.columns()
    fields = [_field(columns.apply(number)) for number in range(columns.size())]
    try:
        return StructType(tuple(fields))
    except CorruptLogError as error:
        raise SchemaMismatchError(f"`schema` is wrong: {error.problem}", remedy=error.remedy) from error


def _parse(spark: SparkSession, ddl: str) -> Any:
    """Return the plan of a CREATE TABLE statement with these columns. The statement is parsed, but not run."""
    session: Any = spark
    parser = session._jsparkSession.sessionState().sqlParser()
    try:
        plan = parser.parsePlan(f"CREATE TABLE declared (\n{ddl}\n) USING delta")
    except PySparkException as error:
        raise InvalidRequestError(
            f"`schema` cannot be parsed: {first_line(error)}",
            remedy="Write the schema as in CREATE TABLE, such as 'id BIGINT NOT NULL, day DATE'.",
        ) from error
    if "constraint(" in str(plan.tableSpec()).lower():  # Spark 4.1 and later parse constraints
        raise InvalidRequestError(
            "`schema` has a constraint.",
            remedy="Write a CHECK constraint in `constraints`. Leave other constraints out.",
        )
    return plan


def _field(column: Any) -> StructField:
    """Return the field of Spark's `ColumnDefinition`."""
    name, type_json = str(column.name()), column.dataType().json()
    body = {"name": name, "type": json.loads(type_json), "nullable": column.nullable(), "metadata": _metadata(column)}
    try:
        (field,) = parse_schema(json.dumps({"type": "struct", "fields": [body]}))
    except CorruptLogError as error:
        raise SchemaMismatchError(f"`schema` is wrong: {error.problem}", remedy=error.remedy) from error
    except UnsupportedFeatureError as error:
        raise _unsupported_type(column) from error
    # For a text in a struct, Spark's JSON has the collation in the metadata of the struct's member.
    if _COLLATIONS in type_json or contains_type(field.type, VOID.name):
        raise _unsupported_type(column)
    _refuse_computed_variant(field)
    _refuse_inner_not_null(field)
    if identity.START in field.metadata and field.type != PrimitiveType("long"):
        raise SchemaMismatchError(
            f"The identity column '{name}' is {field.type} in `schema`.", remedy="Declare the column as BIGINT."
        )
    return field


def _refuse_computed_variant(field: StructField) -> None:
    """Refuse a generated variant, and a default other than NULL. Protocol: Default Columns, Variant Data Type."""
    if not contains_type(field.type, "variant"):
        return
    if GENERATION in field.metadata:
        raise SchemaMismatchError(
            f"The generated column '{field.name}' is a VARIANT in `schema`.",
            remedy="Generate another type, or compute the variant in the query of the write.",
        )
    if str(field.metadata.get(DEFAULT, "NULL")).strip().upper() != "NULL":
        raise SchemaMismatchError(
            f"The VARIANT column '{field.name}' has a DEFAULT other than NULL in `schema`.",
            remedy="Leave out the DEFAULT.",
        )


def _unsupported_type(column: Any) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"The column '{column.name()}' has the type {column.dataType().simpleString()} in `schema`, which this release "
        "cannot store.",
        remedy="Declare another type.",
    )


def _refuse_inner_not_null(field: StructField) -> None:
    """Refuse NOT NULL inside an array or a map, because writers do not check it there. delta-spark refuses it too."""
    for parent in (field, *all_fields(field.type)):
        if isinstance(parent.type, ArrayType | MapType):
            member = next((f for f in all_fields(parent.type) if not f.nullable), None)
            if member is not None:
                raise SchemaMismatchError(
                    f"'{member.name}' in the column '{field.name}' is NOT NULL inside an array or a map.",
                    remedy="Leave out NOT NULL there.",
                )


def _metadata(column: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if column.comment().isDefined():
        metadata[COMMENT] = str(column.comment().get())
    if column.defaultValue().isDefined():
        metadata[DEFAULT] = str(column.defaultValue().get().originalSQL())
    if column.generationExpression().isDefined():
        metadata[GENERATION] = _sql_of_generation(column.generationExpression().get())
    if DEFAULT in metadata and (GENERATION in metadata or column.identityColumnSpec().isDefined()):
        raise InvalidRequestError(
            f"The column '{column.name()}' is generated and has a DEFAULT in `schema`.", remedy="Leave out the DEFAULT."
        )
    if column.identityColumnSpec().isDefined():
        spec = column.identityColumnSpec().get()
        metadata |= {
            identity.START: int(spec.getStart()),
            identity.STEP: int(spec.getStep()),
            identity.ALLOW_EXPLICIT: bool(spec.isAllowExplicitInsert()),
        }
    return metadata


def _sql_of_generation(expression: Any) -> str:
    """Return the SQL text of a generation expression.

    In Spark 4.0, `expression` is the text. In later versions, it is an object that has the text.
    """
    return expression if isinstance(expression, str) else str(expression.originalSQL())
