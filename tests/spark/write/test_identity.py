"""Identity columns: values without gaps or repetition, also with concurrent writers."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.requests import Source
from tests.spark.write.test_column_rules import empty_table, field, refused
from tests.support.tables import commit, rows, spark_rows, write_rows

pytestmark = pytest.mark.spark


def identity(name, start=1, step=1, *, explicit=False, **mark):
    about = {"start": start, "step": step, "allowExplicitInsert": explicit, **mark}
    return field(name, "long", **{f"delta__identity__{key}": value for key, value in about.items()})


def table_with(folder, *fields, features=("identityColumns",), **options):
    return empty_table(folder, *fields, features=features, **options)


def marks(table, version):
    schema = json.loads(commit(table, version)["metaData"]["schemaString"])
    return {f["name"]: f["metadata"].get("delta.identity.highWaterMark") for f in schema["fields"]}


def many(count, partitions=5):
    """Rows in several partitions, of unequal sizes, one of them empty."""
    split = f"SELECT /*+ REPARTITION({partitions}, third) */ * FROM (SELECT x, x % 3 AS third FROM numbers)"
    return f"WITH numbers AS (SELECT explode(sequence(1, {count})) AS x), split AS ({split}) SELECT x FROM split"


def kept_rdds(spark):
    """The ids of the persisted RDDs. Those of other tests may disappear at any time."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_identity_values_continue_after_the_high_water_mark_in_every_mode(spark, tmp_path):
    before = kept_rdds(spark)
    fields = identity("up"), field("x", "integer"), identity("down", -10, -5)
    table = table_with(tmp_path / "t", *fields)
    write_rows(spark, table, many(100))
    got = rows(table)
    assert sorted(r[0] for r in got) == list(range(1, 101)) and sorted(r[1] for r in got) == list(range(1, 101))
    assert {(r[0] - 1) * -5 - 10 for r in got} == {r[2] for r in got} and all(r[2] == (r[0] - 1) * -5 - 10 for r in got)
    assert marks(table, 1) == {"up": 100, "x": None, "down": -505}
    write_rows(spark, table, many(10), optimize_write=True, max_records_per_file=3)
    assert sorted(r[0] for r in rows(table)) == list(range(1, 111))
    write_rows(spark, table, many(2), mode="overwrite", replace_where="x <= 2")
    write_rows(spark, table, "SELECT 5 AS x WHERE 1 = 0")
    assert "metaData" not in commit(table, 4)
    write_rows(spark, table, many(3), mode="overwrite")
    assert sorted(r[0] for r in rows(table)) == [113, 114, 115] == sorted(r[0] for r in spark_rows(spark, table))
    refused(spark, table, SchemaMismatchError, "'down'.*GENERATED ALWAYS", "SELECT 1 AS x, 5L AS down")
    kept = rows(table)
    sources = {"source": Source(format="delta", path=str(table))}
    write_rows(spark, table, mode="overwrite", data_change=False, sources=sources)
    assert rows(table) == kept and "metaData" not in commit(table, 6)
    assert kept_rdds(spark) <= before


def test_a_column_generated_by_default_accepts_explicit_values(spark, tmp_path):
    table = table_with(tmp_path / "t", identity("n", 1, 2, explicit=True, highWaterMark=4), field("x", "integer"))
    write_rows(spark, table, "SELECT 100L AS n, 1 AS x")
    assert "metaData" not in commit(table, 1)
    write_rows(spark, table, "SELECT 2 AS x")
    assert rows(table) == [(100, 1), (5, 2)] and marks(table, 2)["n"] == 5


def test_a_write_that_would_overflow_an_identity_column_is_rejected(spark, tmp_path):
    table = table_with(tmp_path / "t", identity("n", highWaterMark=2**63 - 3), field("x", "integer"))
    refused(spark, table, ConstraintViolationError, "'n' has no values left", many(3))
    write_rows(spark, table, many(2))
    assert sorted(r[0] for r in rows(table)) == [2**63 - 2, 2**63 - 1]


def test_a_generated_column_over_an_identity_column_is_rejected(spark, tmp_path):
    fields = identity("n"), field("g", "long", delta__generationExpression="n + 1"), field("x", "integer")
    table = table_with(tmp_path / "t", *fields, features=("identityColumns", "generatedColumns"))
    refused(spark, table, UnsupportedFeatureError, "columns that are computed too: n", "SELECT 1 AS x")


def test_the_loser_of_a_race_for_identity_values_gets_other_values(spark, tmp_path, monkeypatch):
    table = table_with(tmp_path / "t", identity("n"), field("x", "integer"))
    from deltalite.commands.common import committing as command

    real, state = command.commit, {"raced": False}

    def raced(store, proposal, **options):
        if not state["raced"]:
            state["raced"] = True
            write_rows(spark, table, "SELECT 1 AS x UNION ALL SELECT 2")
        return real(store, proposal, **options)

    monkeypatch.setattr(command, "commit", raced)
    done = write_rows(spark, table, "SELECT 3 AS x")
    assert done.version == 2 and sorted(rows(table)) == [(1, 1), (2, 2), (3, 3)]
