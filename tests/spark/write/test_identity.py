"""Writes give IDENTITY columns values without gaps or duplicates, also with concurrent writers."""

from __future__ import annotations

import pytest

from deltalite.errors import ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.requests import Source
from tests.support.column_rules import assert_write_rejected, field, high_water_marks, identity_field, write_empty_table
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, rows, spark_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def identity_table(folder, *fields, features=("identityColumns",), **options):
    return write_empty_table(folder, *fields, features=features, **options)


def numbers(count, partitions=5):
    """A query for the rows 1 to `count` of a column `x`, in partitions of unequal sizes. At least one is empty."""
    repartitioned = (
        f"SELECT /*+ REPARTITION({partitions}, remainder) */ * FROM (SELECT x, x % 3 AS remainder FROM source)"
    )
    source = f"SELECT explode(sequence(1, {count})) AS x"
    return f"WITH source AS ({source}), repartitioned AS ({repartitioned}) SELECT x FROM repartitioned"


def persisted_rdds(spark):
    """The ids of the persisted RDDs. The RDDs of other tests may disappear at any time."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_identity_values_continue_after_the_high_water_mark_in_every_mode(spark, tmp_path):
    rdds_before = persisted_rdds(spark)
    fields = identity_field("up"), field("x", "integer"), identity_field("down", -10, -5)
    table = identity_table(tmp_path / "t", *fields)
    write_rows(spark, table, numbers(100))
    table_rows = rows(table)
    assert sorted(up for up, _, _ in table_rows) == list(range(1, 101))
    assert sorted(x for _, x, _ in table_rows) == list(range(1, 101))
    assert all(down == (up - 1) * -5 - 10 for up, _, down in table_rows)
    assert high_water_marks(table, 1) == {"up": 100, "x": None, "down": -505}
    write_rows(spark, table, numbers(10), optimize_write=True, max_records_per_file=3)
    assert sorted(r[0] for r in rows(table)) == list(range(1, 111))
    write_rows(spark, table, numbers(2), mode="overwrite", replace_where="x <= 2")
    write_rows(spark, table, "SELECT 5 AS x WHERE 1 = 0")
    assert "metaData" not in actions_of(table, 4)
    write_rows(spark, table, numbers(3), mode="overwrite")
    assert sorted(r[0] for r in rows(table)) == [113, 114, 115] == sorted(r[0] for r in spark_rows(spark, table))
    assert_write_rejected(spark, table, SchemaMismatchError, "'down'.*GENERATED ALWAYS", "SELECT 1 AS x, 5L AS down")
    rows_before = rows(table)
    sources = {"source": Source(format="delta", path=str(table))}
    write_rows(spark, table, mode="overwrite", data_change=False, sources=sources)
    assert rows(table) == rows_before and "metaData" not in actions_of(table, 6)
    assert persisted_rdds(spark) <= rdds_before


def test_a_column_generated_by_default_accepts_explicit_values(spark, tmp_path):
    table = identity_table(
        tmp_path / "t", identity_field("n", 1, 2, explicit=True, highWaterMark=4), field("x", "integer")
    )
    write_rows(spark, table, "SELECT 100L AS n, 1 AS x")
    assert "metaData" not in actions_of(table, 1)
    write_rows(spark, table, "SELECT 2 AS x")
    assert rows(table) == [(100, 1), (5, 2)] and high_water_marks(table, 2)["n"] == 5


def test_a_write_that_would_overflow_an_identity_column_is_rejected(spark, tmp_path):
    table = identity_table(tmp_path / "t", identity_field("n", highWaterMark=2**63 - 3), field("x", "integer"))
    assert_write_rejected(spark, table, ConstraintViolationError, "'n' has no values left", numbers(3))
    write_rows(spark, table, numbers(2))
    assert sorted(r[0] for r in rows(table)) == [2**63 - 2, 2**63 - 1]


def test_a_generated_column_that_reads_an_identity_column_is_rejected(spark, tmp_path):
    fields = identity_field("n"), field("g", "long", delta__generationExpression="n + 1"), field("x", "integer")
    table = identity_table(tmp_path / "t", *fields, features=("identityColumns", "generatedColumns"))
    assert_write_rejected(spark, table, UnsupportedFeatureError, "columns that are computed too: n", "SELECT 1 AS x")


def test_the_second_of_two_concurrent_writers_gets_the_following_identity_values(spark, tmp_path, monkeypatch):
    table = identity_table(tmp_path / "t", identity_field("n"), field("x", "integer"))
    rival_query = "SELECT 1 AS x UNION ALL SELECT 2"
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, rival_query))
    result = write_rows(spark, table, "SELECT 3 AS x")
    assert result.version == 2 and sorted(rows(table)) == [(1, 1), (2, 2), (3, 3)]
