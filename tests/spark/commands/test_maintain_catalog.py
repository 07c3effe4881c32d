"""A maintenance of a schema finds the Delta tables in Spark's catalog, without the classes of Delta Lake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite import DeltaTable
from deltalite.commands.maintain import maintain
from deltalite.errors import MaintenanceError, TableNotFoundError
from deltalite.requests import MaintainRequest, RunIdentity
from deltalite.spark.catalog import tables as catalog_tables
from tests.spark.commands.test_maintain import add_files
from tests.support.catalogs import register_table

pytestmark = [pytest.mark.spark]
CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.fixture
def schema(spark, tmp_path):
    """A schema with two Delta tables, a Delta table without a folder, a table of another format and a view."""
    name = "maintained"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / 'warehouse'}'")
    for table in ("orders", "by_day"):
        add_files(tmp_path / table)
        register_table(spark, name, table, tmp_path / table, provider={"orders": "delta", "by_day": "DELTA"}[table])
    register_table(spark, name, "missing", tmp_path / "missing")
    spark.sql(f"CREATE TABLE {name}.parquet_files (id BIGINT) USING parquet")
    spark.sql(f"CREATE VIEW {name}.few AS SELECT 1 AS id")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


def maintain_schema(spark, schema, **parameters):
    identity = RunIdentity(app_id="ns/dag/maintain/-1/run")
    return maintain(spark, MaintainRequest(catalog_schema=schema, vacuum=False, identity=identity, **parameters))


def test_the_delta_tables_of_a_schema_are_maintained_and_other_entries_are_skipped(
    spark, schema, tmp_path, monkeypatch
):
    with pytest.raises(MaintenanceError, match=r"1 of 3 tables failed: maintained.missing \(TableNotFound"):
        maintain_schema(spark, schema)
    assert len(DeltaTable(str(tmp_path / "orders")).files()) == 1
    dry_run = maintain_schema(spark, f"spark_catalog.{schema}", dry_run=True)
    assert dry_run.table == "spark_catalog.maintained"
    assert {row["name"].rpartition(".")[2]: (row["table"], row["status"]) for row in dry_run.tables} == {
        "orders": (str(tmp_path / "orders"), "healthy"),
        "by_day": (str(tmp_path / "by_day"), "healthy"),
        "missing": (str(tmp_path / "missing"), "failed"),
        "parquet_files": ("spark_catalog.maintained.parquet_files", "skipped"),
        "few": ("spark_catalog.maintained.few", "skipped"),
    }
    assert (dry_run.metrics["numTables"], dry_run.metrics["numSkippedTables"]) == (3, 2)

    describe = catalog_tables._descriptions

    def fail_for_orders(session, schema_sql, pattern):
        if pattern in ("*", "orders"):
            session.sql(f"SHOW TABLE EXTENDED IN {schema_sql}_missing LIKE '*'")
        return describe(session, schema_sql, pattern)

    monkeypatch.setattr(catalog_tables, "_descriptions", fail_for_orders)
    rows = {row["name"]: row for row in maintain_schema(spark, schema, dry_run=True).tables}
    assert rows["maintained.orders"]["error"]["kind"] == "StorageError"
    assert rows["maintained.by_day"]["status"] == "healthy", "one table that fails stops no other table"


def test_an_unknown_schema_and_a_schema_without_delta_tables_are_errors(spark, schema):
    with pytest.raises(
        TableNotFoundError, match=r"(?s)the schema nope: .*catalogs spark_catalog, and spark.sql.catalog"
    ):
        maintain_schema(spark, "nope")
    with pytest.raises(TableNotFoundError, match=r"does not have the schema nope\.sales"):
        maintain_schema(spark, "nope.sales")
    for table in ("orders", "by_day", "missing"):
        spark._jsparkSession.sharedState().externalCatalog().dropTable(schema, table, False, False)
    with pytest.raises(TableNotFoundError, match=r"has no Delta table\. Views and tables of other formats: 2\."):
        maintain_schema(spark, schema)


@pytest.mark.campaign
def test_the_tables_of_a_hive_metastore_are_found(tmp_path):
    add_files(tmp_path / "lake" / "orders")
    conf = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.master": "local[2]",
    }
    arguments = " ".join(f"--conf '{key}={value}'" for key, value in conf.items())
    completed = subprocess.run(
        [sys.executable, Path(__file__).with_name("hive_program.py"), tmp_path],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell"},
        cwd=tmp_path,  # Derby writes its log there
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    result = json.loads(completed.stdout.strip().splitlines()[-1])
    assert {row["name"]: (row["table"], row["status"]) for row in result["tables"]} == {
        "spark_catalog.sales.orders": (str(tmp_path / "lake" / "orders"), "due"),
        "spark_catalog.sales.missing": (str(tmp_path / "lake" / "missing"), "failed"),
        "spark_catalog.sales.files": ("spark_catalog.sales.files", "skipped"),
        "spark_catalog.sales.few": ("spark_catalog.sales.few", "skipped"),
    }
