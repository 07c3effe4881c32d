"""A declaration creates the table that it describes, or alters an existing table until it matches."""

from __future__ import annotations

import json
import shutil

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import (
    ConstraintViolationError,
    CorruptDataFileError,
    InvalidRequestError,
    SchemaMismatchError,
    TableNotFoundError,
)
from deltalite.requests import RunIdentity, TableRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, folder_content, rows, values, without_time, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

ORDERS = """
    id BIGINT NOT NULL COMMENT 'the key',
    amount DECIMAL(10, 2),
    at TIMESTAMP,
    day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
    state STRING DEFAULT 'new',
    number BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5)
"""


def define(spark, table, *, run=None, **parameters):
    """Create or alter a table; the parameters are those of `TableRequest`, and `run` is the app id."""
    identity = None if run is None else RunIdentity(app_id=run)
    return define_table(spark, TableRequest(table=str(table), identity=identity, **parameters))


def columns(table):
    """The fields of the table's schema by name."""
    return {f.name: f for f in Snapshot.load(LocalLogStore(str(table))).schema}


def configuration(table):
    return Snapshot.load(LocalLogStore(str(table))).configuration


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table with two rows."""
    path = tmp_path_factory.mktemp("template") / "t"
    write_rows(spark, path, values("id, name", "1, 'a'", "2, NULL"))
    return path


@pytest.fixture
def table(template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(template, tmp_path / "t")


def assert_rejected(spark, table, error, *texts, **parameters):
    """Assert that the declaration fails with these texts in its error and leaves the table unchanged."""
    content_before = folder_content(table)
    with pytest.raises(error) as error_info:
        define(spark, table, **parameters)
    message = f"{error_info.value.problem} {error_info.value.remedy}"
    assert all(text in message for text in texts), message
    assert folder_content(table) == content_before


def test_a_new_table_has_the_declared_columns_rules_and_properties(spark, tmp_path):
    table = tmp_path / "orders"
    result = define(
        spark, table, run="create", schema=ORDERS, partition_by=["day"], description="All orders",
        properties={"delta.enableChangeDataFeed": "true", "owner": "sales"}, constraints={"Positive": "amount > 0"},
    )  # fmt: skip
    assert (result.version, result.committed, result.operation) == (0, True, "CREATE TABLE")
    metadata = actions_of(table, 0)["metaData"]
    assert metadata["description"] == "All orders" and metadata["partitionColumns"] == ["day"]
    assert metadata["configuration"] == {
        "delta.enableChangeDataFeed": "true", "owner": "sales", "delta.constraints.positive": "amount > 0"
    }  # fmt: skip
    write_rows(spark, table, "SELECT 1L AS id, 2.5BD AS amount, TIMESTAMP'2026-01-02 03:00:00' AS at")
    ((key, amount, _, day, state, number),) = rows(table)
    assert (key, float(amount), str(day), state, number) == (1, 2.5, "2026-01-02", "new", 10)
    for query, rule in (("SELECT NULL AS id", "'id' is NOT NULL"), ("SELECT 2L AS id, -1.0BD AS amount", "'positive'")):
        with pytest.raises(ConstraintViolationError, match=rule):
            write_rows(spark, table, query)
    assert delta.read(spark, str(table)).count() == 1


def test_the_same_declaration_again_commits_nothing(spark, tmp_path):
    table = tmp_path / "t"
    declaration = {
        "schema": ORDERS + ", v VARCHAR(5), c CHAR(3), s STRUCT<a: INT NOT NULL, b: ARRAY<STRING>>, m MAP<STRING, INT>",
        "partition_by": ["day"],
        "properties": {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"},
        "constraints": {"positive": "amount > 0"},
        "description": "All orders",
    }
    assert define(spark, table, **declaration).committed
    write_rows(spark, table, "SELECT 1L AS id, 2.5BD AS amount, TIMESTAMP'2026-01-02 03:00:00' AS at")
    second_result = define(spark, table, run="second", **declaration)
    assert not second_result.committed and second_result.version == 1
    assert DeltaTable(str(table)).version == 1


def test_a_run_that_has_committed_returns_its_commit(spark, table):
    first_result = define(spark, table, run="alter", description="first")
    assert (first_result.version, first_result.skipped) == (1, False)
    define(spark, table, description="later")
    second_result = define(spark, table, run="alter", description="first")
    assert (second_result.version, second_result.skipped) == (1, True)
    assert actions_of(table, 2)["metaData"]["description"] == "later"


def test_new_columns_are_null_in_the_rows_of_the_table(spark, table):
    result = define(spark, table, schema="name STRING COMMENT 'full', born DATE, ID INT, address STRUCT<city: STRING>")
    assert without_time(result.metrics) == {"numAddedColumns": 2, "numChangedColumns": 1, "numChangedProperties": 0}
    assert list(columns(table)) == ["id", "name", "born", "address"]
    assert columns(table)["name"].metadata == {"comment": "full"}
    assert rows(table) == [(1, "a", None, None), (2, None, None, None)]
    info = actions_of(table, 1)["commitInfo"]
    assert info["operation"] == "ALTER TABLE"
    assert json.loads(info["operationParameters"]["addedColumns"]) == ["born", "address"]
    define(spark, table, schema="address STRUCT<zip: INT>")
    assert [f.name for f in columns(table)["address"].type] == ["city", "zip"]


def test_a_column_widens_if_the_table_has_or_gets_type_widening(spark, table):
    assert_rejected(
        spark, table, SchemaMismatchError, "'id' is int in the table and bigint", "delta.enableTypeWidening",
        schema="id BIGINT",
    )  # fmt: skip
    define(spark, table, schema="id BIGINT", properties={"delta.enableTypeWidening": "true"})
    write_rows(spark, table, values("id, name", "3000000000L, 'big'"))
    assert [row[0] for row in rows(table)] == [1, 2, 3_000_000_000]
    assert delta.read(spark, str(table)).toArrow()["id"].to_pylist().count(3_000_000_000) == 1
    assert_rejected(spark, table, SchemaMismatchError, "'id' is bigint in the table and int", schema="id INT")


def test_columns_keep_their_values_if_they_widen_while_the_table_gets_column_mapping(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id, named_struct('a', 2) AS s, array(named_struct('b', 3)) AS l")
    schema = "id BIGINT, s STRUCT<a: BIGINT, c: INT>, l ARRAY<STRUCT<b: DOUBLE, c: INT>>, new INT"
    define(
        spark, table, schema=schema,
        properties={"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"},
    )  # fmt: skip
    assert rows(table) == [(1, {"a": 2, "c": None}, [{"b": 3.0, "c": None}], None)]
    assert delta.read(spark, str(table)).toArrow().to_pylist() == DeltaTable(str(table)).to_arrow().to_pylist()


def test_not_null_is_checked_against_the_rows_and_can_be_removed(spark, table):
    texts = ("Could not alter the table", "'name' is NOT NULL", '"id":2', "Update or delete")
    assert_rejected(spark, table, ConstraintViolationError, *texts, schema="name STRING NOT NULL")
    define(spark, table, schema="id INT NOT NULL")
    assert not columns(table)["id"].nullable
    with pytest.raises(ConstraintViolationError, match="'id' is NOT NULL"):
        write_rows(spark, table, values("id, name", "CAST(NULL AS INT), 'x'"))
    define(spark, table, schema="id INT")
    assert columns(table)["id"].nullable


def test_a_constraint_is_checked_against_the_rows_and_can_be_changed_and_dropped(spark, table):
    assert_rejected(spark, table, ConstraintViolationError, "id > 1", '"id":1', constraints={"high": "id > 1"})
    for condition in ("nope > 1", "id + 1", "rand() > 0.5", "(SELECT true)"):
        assert_rejected(spark, table, InvalidRequestError, condition, "`constraints`", constraints={"c": condition})
    define(spark, table, constraints={"High": "id > 0"})
    assert configuration(table) == {"delta.constraints.high": "id > 0"}
    with pytest.raises(ConstraintViolationError, match="'high'"):
        write_rows(spark, table, values("id, name", "0, 'x'"))
    define(spark, table, constraints={"HIGH": "id >= 0"})
    write_rows(spark, table, values("id, name", "0, 'x'"))
    define(spark, table, drop_constraints=["hiGH", "unknown"])
    assert configuration(table) == {}


@pytest.mark.parametrize(
    "parameters", [{"constraints": {"Positive": "id > 0"}}, {"schema": "id INT NOT NULL, name STRING"}]
)
def test_a_missing_data_file_is_damage_of_the_table_and_not_a_missing_input(spark, table, parameters):
    next(table.glob("*.parquet")).unlink()
    assert_rejected(spark, table, CorruptDataFileError, f"The log of {table}", "restore the table", **parameters)


def test_a_column_widens_in_the_task_that_drops_its_constraint(spark, table):
    define(spark, table, constraints={"positive": "id > 0"}, properties={"delta.enableTypeWidening": "true"})
    assert_rejected(spark, table, SchemaMismatchError, "'id' cannot widen", "drop the rule", schema="id BIGINT")
    define(spark, table, schema="id BIGINT", drop_constraints=["positive"])
    assert str(columns(table)["id"].type) == "bigint"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("a + 1", "it is int, but the column is string"),
        ("CAST(current_date() AS STRING)", "another"),
        ("CAST(rand() AS STRING)", "deterministic"),
        ("upper(c)", "computed too: c"),
        ("nope", "nope"),
    ],
)
def test_an_invalid_or_non_deterministic_generation_expression_is_rejected(spark, tmp_path, expression, text):
    schema = f"a INT, b STRING GENERATED ALWAYS AS ({expression}), c STRING GENERATED ALWAYS AS (CAST(a AS STRING))"
    with pytest.raises(InvalidRequestError, match="column 'b'") as error_info:
        define(spark, tmp_path / "t", schema=schema)
    assert text in error_info.value.problem and not (tmp_path / "t").exists()


@pytest.mark.parametrize("rule", ["INT GENERATED ALWAYS AS (id + 1)", "INT DEFAULT 1", "INT NOT NULL"])
def test_a_new_column_that_needs_values_is_rejected_if_another_writer_adds_rows_first(
    spark, tmp_path, monkeypatch, rule
):
    table = tmp_path / "t"
    define(spark, table, schema="id INT")
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, "SELECT 1 AS id"))
    with pytest.raises(SchemaMismatchError, match="new column 'n'"):
        define(spark, table, schema=f"id INT, n {rule}")
    assert rows(table) == [(1,)]


def test_properties_are_set_and_unset(spark, table):
    properties = {
        "delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps":
        "true", "delta.checkpointPolicy": "v2", "owner": "me",
    }  # fmt: skip
    define(spark, table, properties=properties)
    assert properties.items() <= configuration(table).items()
    write_rows(spark, table, values("id, name", "3, 'c'"))
    assert len(rows(table)) == delta.read(spark, str(table)).count() == 3
    define(spark, table, unset_properties=["owner", "nothing", "delta.enableDeletionVectors", "delta.appendOnly"])
    assert not {"owner", "delta.enableDeletionVectors"} & configuration(table).keys()
    assert len(rows(table)) == 3


@pytest.mark.parametrize(
    ("parameters", "error", "texts"),
    [
        ({"schema": "id"}, InvalidRequestError, ["`schema` cannot be parsed", "CREATE TABLE"]),
        ({"schema": "b BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0)"}, InvalidRequestError, ["cannot be 0"]),
        ({"schema": "id INT, CHECK (id > 0)"}, InvalidRequestError, ["`schema`"]),
        ({"schema": "id INT) USING parquet PARTITIONED BY (id"}, InvalidRequestError, ["`schema`"]),
        ({"schema": "x INT, X INT"}, SchemaMismatchError, ["two columns called 'x'"]),
        ({"schema": "x INTERVAL DAY"}, SchemaMismatchError, ["'x'", "cannot store"]),
        ({"schema": "s STRUCT<a: INTERVAL DAY>"}, SchemaMismatchError, ["'s'", "cannot store"]),
        ({"schema": "x VOID"}, SchemaMismatchError, ["'x'", "void", "cannot store"]),
        ({"schema": "x ARRAY<VOID>"}, SchemaMismatchError, ["'x'", "cannot store"]),
        ({"schema": "x STRUCT<a: STRING COLLATE UTF8_LCASE>"}, SchemaMismatchError, ["'x'", "cannot store"]),
        ({"schema": "x STRUCT<a: INT, A: INT>"}, SchemaMismatchError, ["two columns called 'a'"]),
        ({"schema": "x STRUCT<l: ARRAY<STRUCT<a: INT NOT NULL>>>"}, SchemaMismatchError, ["'a'", "NOT NULL inside"]),
        ({"schema": "id INT DEFAULT 'x'"}, InvalidRequestError, ["default in `schema`", "CAST_INVALID_INPUT"]),
        (
            {"schema": "x INT DEFAULT 1 GENERATED ALWAYS AS (2)"},
            InvalidRequestError,
            ["'x' is generated and has a DEF"],
        ),
        ({"schema": "id STRING"}, SchemaMismatchError, ["'id' is int in the table and string"]),
        ({"schema": "name VARCHAR(5)"}, SchemaMismatchError, ["'name' is string in the table and varchar(5)"]),
        ({"schema": "x INT NOT NULL"}, SchemaMismatchError, ["new column 'x' is NOT NULL"]),
        ({"schema": "x INT DEFAULT 1"}, SchemaMismatchError, ["'x'", "later task can declare"]),
        ({"schema": "x BIGINT GENERATED ALWAYS AS IDENTITY"}, SchemaMismatchError, ["'x'", "new table"]),
        (
            {"schema": "id INT GENERATED ALWAYS AS (1)"},
            SchemaMismatchError,
            ["not generated in the table", "generated as (1)"],
        ),
        ({"schema": "id INT DEFAULT nope"}, InvalidRequestError, ["default of the column 'id'", "in `schema`"]),
        ({"partition_by": ["name"]}, SchemaMismatchError, ["partitioned by ()", "(name)"]),
        ({"properties": {"delta.nope": "1"}}, InvalidRequestError, ["delta.nope"]),
        ({"properties": {"delta.appendOnly": "yes"}}, InvalidRequestError, ["delta.appendOnly"]),
        ({"properties": {"delta.constraints.c": "id > 0"}}, InvalidRequestError, ["`constraints`", "'c'"]),
        ({"unset_properties": ["delta.feature.rowTracking"]}, InvalidRequestError, ["drop_features"]),
        ({"unset_properties": ["delta.EnableDeletionVectors"]}, InvalidRequestError, ["delta.EnableDel", "spelling"]),
        ({"unset_properties": ["delta.columnMapping.maxColumnId"]}, InvalidRequestError, ["writers maintain"]),
        ({"properties": {"delta.columnMapping.mode": "id"}}, InvalidRequestError, ["'none' to 'name'"]),
        (
            {"properties": {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}},
            InvalidRequestError,
            ["both true"],
        ),
    ],
)
def test_an_invalid_declaration_is_rejected_and_leaves_the_table_unchanged(spark, table, parameters, error, texts):
    assert_rejected(spark, table, error, *texts, **parameters)


def test_a_missing_table_needs_a_schema_and_a_free_folder(spark, tmp_path):
    with pytest.raises(TableNotFoundError, match="declares no schema"):
        define(spark, tmp_path / "t", description="x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.csv").write_text("1")
    with pytest.raises(InvalidRequestError, match=r"other files, such as a\.csv"):
        define(spark, tmp_path / "full", schema="id INT")
    assert not (tmp_path / "t").exists()
    with pytest.raises(InvalidRequestError, match="partition_by names 'nope'"):
        define(spark, tmp_path / "t", schema="id INT", partition_by=["nope"])
    with pytest.raises(InvalidRequestError, match="nope > 1"):
        define(spark, tmp_path / "t", schema="id INT", constraints={"c": "nope > 1"})
    assert not (tmp_path / "t").exists()


def test_a_table_that_another_writer_creates_at_the_same_time_is_altered(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    run_before_commits(monkeypatch, lambda: define(spark, table, schema="id INT", properties={"owner": "them"}))
    result = define(spark, table, schema="id INT, name STRING")
    assert (result.version, list(columns(table))) == (1, ["id", "name"])
    assert configuration(table) == {"owner": "them"}


def test_a_new_constraint_is_rejected_if_a_concurrent_append_breaks_it(spark, table, monkeypatch):
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, name", "-1, 'theirs'")))
    with pytest.raises(ConstraintViolationError, match='"id":-1'):
        define(spark, table, constraints={"positive": "id > 0"})
    assert configuration(table) == {}


def test_a_concurrent_change_of_the_table_is_kept(spark, table, monkeypatch):
    run_before_commits(monkeypatch, lambda: define(spark, table, properties={"owner": "them"}))
    define(spark, table, properties={"team": "us"})
    assert configuration(table) == {"owner": "them", "team": "us"}
