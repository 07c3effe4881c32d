"""The tables of a schema, as Spark's catalog describes them.

`DESCRIBE TABLE` resolves the format of a table, so it fails for a Delta table if the session has no Delta Lake classes.
`SHOW TABLE EXTENDED` does not resolve the format. Its description is a text of lines such as `Provider: delta`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import SparkSession

from deltalite.errors import DeltaLiteError, StorageError, TableNotFoundError
from deltalite.spark.columns.names import quoted
from deltalite.spark.runtime.errors import SPARK_ERRORS, first_line, query_problem

_IMPLEMENTATION = "spark.sql.catalogImplementation"
Description = str | DeltaLiteError
"""The description of a table, or the error if the catalog cannot describe the table."""


def describe_tables(spark: SparkSession, schema: Sequence[str]) -> dict[str, Description]:
    """Return the descriptions of the tables and views of a schema, by their names in the schema.

    Temporary views are left out. `schema` has the parts of the schema's name. If the catalog cannot describe all tables
    in one query, because one of them fails, each table gets a separate query.

    Raises:
        TableNotFoundError: the catalog does not have the schema, or the session does not have the catalog.
        StorageError: the catalog does not answer.
    """
    schema_sql = ".".join(map(quoted, schema))
    try:
        rows = spark.sql(f"SHOW TABLES IN {schema_sql}").collect()
    except SPARK_ERRORS as error:
        raise _schema_error(spark, ".".join(schema), error) from error
    names = [row["tableName"] for row in rows if not row["isTemporary"]]
    try:
        descriptions = _descriptions(spark, schema_sql, "*") if names else {}
    except SPARK_ERRORS:
        descriptions = {}
    return {name: descriptions.get(name) or _describe(spark, schema_sql, name) for name in names}


def _describe(spark: SparkSession, schema_sql: str, name: str) -> Description:
    """Return the description of one table, or the error."""
    pattern = re.sub(r"\W", ".", name, flags=re.ASCII)  # in Spark's pattern, a dot matches any character
    try:
        description = _descriptions(spark, schema_sql, pattern).get(name)
        problem = "it does not list the table any more" if description is None else ""
    except SPARK_ERRORS as error:
        description, problem = None, first_line(error)
    return description or StorageError(
        f"Spark's catalog does not describe {schema_sql}.{quoted(name)}: {problem}",
        remedy="Check the table in the catalog.",
    )


def _descriptions(spark: SparkSession, schema_sql: str, pattern: str) -> dict[str, str]:
    """Return the descriptions of the tables whose names match, by name."""
    rows = spark.sql(f"SHOW TABLE EXTENDED IN {schema_sql} LIKE '{pattern}'").collect()
    return {row["tableName"]: row["information"] for row in rows if not row["isTemporary"]}


def _schema_error(spark: SparkSession, schema: str, error: Exception) -> DeltaLiteError:
    catalogs = ", ".join(sorted(row[0] for row in spark.sql("SHOW CATALOGS").collect()))
    implementation = spark.conf.get(_IMPLEMENTATION, "in-memory")
    problem = query_problem(error)
    if problem is None:
        return StorageError(
            f"Could not list the tables of the schema {schema}: {first_line(error)}",
            remedy="Check that the metastore is reachable from the driver, and run the task again.",
        )
    return TableNotFoundError(
        f"The catalog of the Spark session does not have the schema {schema}: {problem} The session has the catalogs "
        f"{catalogs}, and {_IMPLEMENTATION}={implementation}.",
        remedy=f"Check the name. Set the metastore in `conf`: {_IMPLEMENTATION}=hive with "
        "the metastore's address, or spark.sql.catalog.<name>.",
    )
