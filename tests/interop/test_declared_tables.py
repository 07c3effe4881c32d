"""delta-spark enforces the rules of a table that a task declared, and writes to a table that a task altered."""

from __future__ import annotations

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.requests import TableRequest
from tests.support.delta_spark import DeltaSparkError
from tests.support.tables import rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.usefixtures("quick_plans")]

SCHEMA = """
    id BIGINT NOT NULL COMMENT 'the key', at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
    state STRING DEFAULT 'new', number BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5)
"""


def define(spark, table, **parameters):
    """Create or alter a table as the task of a `DeltaTableOperator` does."""
    return define_table(spark, TableRequest(table=str(table), **parameters))


def test_delta_spark_enforces_the_rules_of_a_declared_table(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    # The constraint allows null, so that only NOT NULL rejects a null.
    constraints = {"Positive": "id IS NULL OR id > 0"}
    define(spark, table, schema=SCHEMA, partition_by=["day"], constraints=constraints, description="All")
    delta_spark.sql(f"INSERT INTO {sql_name} (id, at) VALUES (1, TIMESTAMP'2026-01-02 03:00:00')")
    write_rows(spark, table, "SELECT 2L AS id, TIMESTAMP'2026-01-03 03:00:00' AS at, 'old' AS state")
    columns = "id, CAST(day AS STRING), state, number"
    assert delta_spark.rows(table, columns) == [[1, "2026-01-02", "new", 10], [2, "2026-01-03", "old", 15]]
    for statement, rule in (
        (f"INSERT INTO {sql_name} (id) VALUES (NULL)", "NOT NULL constraint violated for column: id"),
        (f"INSERT INTO {sql_name} (id) VALUES (0)", "CHECK constraint positive .* violated"),
        (
            f"INSERT INTO {sql_name} (id, day) VALUES (1, DATE'2020-01-01')",
            "CHECK constraint Generated Column .* violated",
        ),
    ):
        with pytest.raises(DeltaSparkError, match=rule):
            delta_spark.sql(statement)
    assert len(rows(table)) == 2


@pytest.mark.campaign
def test_delta_spark_reads_and_writes_an_altered_table(spark, delta_spark, tmp_path):
    table = tmp_path / "t"
    sql_name = f"delta.`{table}`"
    delta_spark.sql(f"CREATE TABLE {sql_name} (id INT, name STRING) USING delta")
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (1, 'a'), (2, 'b')")
    properties = {
        "delta.enableRowTracking": "true",
        "delta.enableTypeWidening": "true",
        "delta.columnMapping.mode": "name",
    }
    define(
        spark, table, schema="id DECIMAL(20, 0) NOT NULL, added STRUCT<a: INT>", properties=properties,
        constraints={"known": "id > 0"},
    )  # fmt: skip
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (3, 'c', named_struct('a', 1))")
    with pytest.raises(DeltaSparkError, match="known"):
        delta_spark.sql(f"INSERT INTO {sql_name} VALUES (0, 'c', NULL)")
    delta_spark.sql(f"UPDATE {sql_name} SET name = 'B' WHERE id = 2")
    tracked_rows = DeltaTable(str(table)).to_arrow(columns=["id", "name", "_row_id"]).to_pylist()
    tracked_rows.sort(key=lambda row: row["id"])
    assert [[str(row["id"]), row["name"], row["_row_id"]] for row in tracked_rows] == [
        list(row) for row in delta_spark.rows(table, "CAST(id AS STRING), name, _metadata.row_id")
    ]
    assert len({row["_row_id"] for row in tracked_rows}) == 3
    define(spark, table, drop_constraints=["known"])
    delta_spark.sql(f"INSERT INTO {sql_name} VALUES (0, 'd', NULL)")
    assert len(rows(table)) == 4
