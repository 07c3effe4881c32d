"""Rows that audits of level `quarantine` reject go to the quarantine table, and all others are written."""

from __future__ import annotations

import json
import re

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import AuditFailedError, ConstraintViolationError, InvalidRequestError, SourceError
from deltalite.requests import Audit, Source, TableRequest
from deltalite.results import OperationResult
from deltalite.spark.hadoop.folders import folder_of
from tests.support.copying import copy_files, loaded_names, write_file
from tests.support.quarantine import fail_at_target_commit, quarantine_options, rejected_rows
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, data_files, delta_rs_rows, folder_content, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

CUSTOMERS = {"name": "customers", "rows": "customer IS NULL"}
AMOUNTS = {"name": "amounts", "rows": "twice < 0 OR day IS NULL", "max_share": 1}


@pytest.mark.smoke
def test_rejected_rows_are_quarantined_once_as_they_would_be_stored(spark, tmp_path):
    table, quarantine = tmp_path / "orders", tmp_path / "quarantine"
    define_table(
        spark,
        TableRequest(
            table=str(table),
            schema="id INT, customer CHAR(3) NOT NULL, amount DOUBLE, at TIMESTAMP, day STRING, reason STRING, "
            "rejected INT, twice INT GENERATED ALWAYS AS (CAST(amount * 2 AS INT))",
            partition_by=("day",),
            constraints={"small": "coalesce(amount, 0) < 100"},
        ),
    )
    query = values(
        "id, customer, amount, at, day, reason, rejected",
        "1, 'a', 1.5D, TIMESTAMP'2026-01-01 00:00:00.000001Z', 'x', 'why', 1",
        "2, NULL, 999D, TIMESTAMP'2026-01-01 00:00:00.000001Z', 'x', 'why', 1",
        "3, NULL, -1D, NULL, 'y', NULL, NULL",
        "4, 'b', NULL, NULL, 'y', NULL, NULL",
        "5, 'c', 1D, NULL, '', NULL, NULL",
        "6, 'd', 1D, NULL, 'y', NULL, NULL",
    )
    audits = quarantine_options(quarantine, CUSTOMERS, AMOUNTS)
    first = write_rows(spark, table, query, run="first", **audits)
    assert [row[:2] for row in rows(table)] == [(1, "a  "), (4, "b  "), (6, "d  ")]
    assert delta_rs_rows(table) == rows(table)
    assert all("rejected" not in file and "/" in file for file in map(str, data_files(table)))
    customers = "audit 'customers' rejects rows for which (customer IS NULL) is true"
    amounts = "audit 'amounts' rejects rows for which (twice < 0 OR day IS NULL) is true"
    quarantined_rows = rejected_rows(quarantine)
    assert [(row["audit"], row["reason"]) for row in quarantined_rows] == [
        ("customers", f"The {customers}."), ("customers", f"The {customers}, and the {amounts}."),
        ("amounts", f"The {amounts}."),
    ]  # fmt: skip
    assert quarantined_rows[0]["record"] == {
        "id": 2, "customer": None, "amount": 999.0, "at": "2026-01-01T00:00:00.000001Z", "day": "x", "reason": "why",
        "rejected": 1, "twice": 1998,
    }  # fmt: skip
    assert (quarantined_rows[2]["record"]["id"], quarantined_rows[2]["record"]["day"]) == (5, None), (
        "readers get null for an empty text"
    )
    assert {(row["run"], row["target"], row["file"], row["line"]) for row in quarantined_rows} == {
        ("first", str(table), None, None)
    }
    assert delta_rs_rows(quarantine) == rows(quarantine)

    assert [(audit.name, audit.measured, audit.rows, audit.passed) for audit in first.audits] == [
        ("customers", 2, 6, True), ("amounts", 2, 6, True),
    ]  # fmt: skip
    assert (first.quarantine.rows, first.quarantine.version, first.metrics["numQuarantinedRows"]) == (3, 0, 3)
    assert first.metrics["numOutputRows"] == 3
    assert OperationResult.from_dict(json.loads(json.dumps(first.as_dict()))) == first
    newest = DeltaTable(str(table)).history(limit=1)[0]
    assert newest["operationParameters"]["quarantine"] == str(quarantine)
    assert json.loads(newest["operationParameters"]["audits"])[0]["level"] == "quarantine"

    retry = write_rows(spark, table, query, run="first", **audits)
    assert (retry.skipped, retry.quarantine, retry.audits) == (True, first.quarantine, first.audits)
    good = values("id, customer, day", "7, 'e', 'z'")
    clean = write_rows(spark, table, good, run="clean", **audits)
    assert (clean.quarantine.version, clean.quarantine.rows, clean.audits[0].measured) == (None, 0, 0)
    dynamic = write_rows(
        spark, table, query, run="dynamic", mode="overwrite", partition_overwrite="dynamic",
        **quarantine_options(quarantine, CUSTOMERS, AMOUNTS, {"name": "last", "rows": "id IN (4, 6)", "max_share": 1}),
    )  # fmt: skip
    assert [row[0] for row in rows(table)] == [1, 4, 6, 7], "a partition without a good row is not replaced"
    assert dynamic.quarantine.rows == 5
    assert DeltaTable(str(quarantine)).version == 1
    with pytest.raises(ConstraintViolationError, match="small"):  # only rejected rows may break rules of the table
        write_rows(spark, table, values("id, customer, day, amount", "8, 'f', 'z', 500D"), run="bad", **audits)


def test_each_row_is_either_written_or_quarantined(spark, tmp_path, monkeypatch):
    """The table and the quarantine get the same rows, even if two computations of the query would differ."""
    quarantine = tmp_path / "quarantine"
    query = "SELECT id, CAST(rand() * 100 AS INT) AS draw FROM (SELECT /*+ REPARTITION(5) */ id FROM range(2000))"
    audits = quarantine_options(
        quarantine, {"name": "low", "rows": "draw < 30"}, {"name": "fives", "rows": "draw % 5 = 0"}
    )

    def write_and_check(table, run):
        result = write_rows(
            spark, table, f"{query} -- {run}", run=run, mode="overwrite", overwrite_schema=True, optimize_write=True,
            properties=properties, **audits,
        )  # fmt: skip
        written = rows(table)
        rejected = rejected_rows(quarantine, run)
        records = [tuple(row["record"].values()) for row in rejected]
        assert sorted(row_id for row_id, _ in [*written, *records]) == list(range(2000))
        assert all(draw >= 30 and draw % 5 for _, draw in written)
        assert all(draw < 30 or draw % 5 == 0 for _, draw in records)
        assert [audit.measured for audit in result.audits] == [
            sum(draw < 30 for _, draw in records), sum(draw % 5 == 0 for _, draw in records),
        ]  # fmt: skip
        assert all((row["audit"] == "low") == (row["record"]["draw"] < 30) for row in rejected)

    properties = {}
    write_and_check(tmp_path / "local", "local")
    properties = {"delta.columnMapping.mode": "name"}
    write_and_check(tmp_path / "mapped", "mapped")
    monkeypatch.setattr(type(folder_of(spark, str(tmp_path))), "has_cheap_rename", False)  # as on an object store
    write_and_check(tmp_path / "in place", "in place")
    assert all("rejected=no/" in str(file) for file in data_files(tmp_path / "in place"))
    uncommitted = [file for file in folder_content(tmp_path / "in place") if re.search(r"rejected=[01]+/part-", file)]
    assert not uncommitted, "the table keeps no file with rejected rows"


def test_identity_values_have_no_gaps_and_a_condition_cannot_read_them(spark, tmp_path):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    define_table(spark, TableRequest(table=str(table), schema="n BIGINT GENERATED ALWAYS AS IDENTITY, x INT"))
    odd = quarantine_options(quarantine, {"name": "odd", "rows": "x % 2 = 1"})
    write_rows(spark, table, "SELECT explode(sequence(1, 100)) AS x", run="r", **odd)
    assert sorted(number for number, _ in rows(table)) == list(range(1, 51))
    assert {row["record"]["n"] for row in rejected_rows(quarantine)} == {None}
    with pytest.raises(InvalidRequestError, match="it reads the IDENTITY column 'n'"):
        write_rows(spark, table, "SELECT 1 AS x", **quarantine_options(quarantine, {"name": "n", "rows": "N > 1"}))


def test_a_write_with_too_many_rejected_rows_fails_and_commits_nothing(spark, tmp_path):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    write_rows(spark, table, values("id, customer", "1, 'a'"))
    before = folder_content(tmp_path)
    query = values("id, customer", "1, NULL", "2, NULL", "3, 'a'")
    with pytest.raises(AuditFailedError) as failure:
        write_rows(spark, table, query, run="r", **quarantine_options(quarantine, CUSTOMERS))
    assert "'customers' (rows on new_rows): measured 2 of 3 rows, allowed max_share=0.5" in str(failure.value)
    assert """Samples of 'customers': {"customer": null, "id": 1}, {"customer": null, "id": 2}.""" in str(failure.value)
    with pytest.raises(AuditFailedError) as failure:
        write_rows(spark, table, query, run="r", **quarantine_options(quarantine, {**CUSTOMERS, "samples": 0}))
    assert "Samples" not in str(failure.value)
    failing = Audit(name="ids", rows="id = 3")
    rejecting = quarantine_options(quarantine, {**CUSTOMERS, "max_rows": 2})
    with pytest.raises(AuditFailedError, match="'ids'"):  # audits of other levels see the good rows
        write_rows(spark, table, query, run="r", **{**rejecting, "audits": (*rejecting["audits"], failing)})
    write_rows(spark, tmp_path / "other", "SELECT 1 AS id")
    for address, problem in (
        (tmp_path / "other", r"The quarantine .*other: .*has the columns id int"),
        (table / "bad", "the table .* or lies in it"),
        (tmp_path / "in" / "bad", "the source 'in' .*/in, or lies in it"),
    ):
        sources = {"in": Source(format="parquet", path=str(tmp_path / "in" / "*.parquet"))}
        with pytest.raises(Exception, match=problem):
            write_rows(spark, table, query, run="r", sources=sources, **quarantine_options(address, CUSTOMERS))
    after = folder_content(tmp_path)
    assert {name for name in after if "_delta_log" in name and "other" not in name} == {
        name for name in before if "_delta_log" in name
    }
    assert not quarantine.exists()


@pytest.mark.campaign
def test_a_retry_replaces_the_rows_of_its_run(spark, tmp_path, monkeypatch):
    table, quarantine, source = tmp_path / "t", tmp_path / "quarantine", tmp_path / "source"
    audits = quarantine_options(quarantine, CUSTOMERS)
    write_rows(spark, source, values("id, customer", "1, NULL", "2, 'a'"))
    sources = {"source": Source(format="delta", path=str(source), incremental=True)}
    fail_at_target_commit(monkeypatch)
    with pytest.raises(SourceError, match="killed"):
        write_rows(spark, table, run="r", sources=sources, **audits)
    assert [row["record"]["id"] for row in rejected_rows(quarantine)] == [1]
    write_rows(spark, source, values("id, customer", "3, NULL", "4, 'a'", "5, 'a'"))
    assert write_rows(spark, table, run="r", sources=sources, **audits).quarantine.rows == 2
    assert [row["record"]["id"] for row in rejected_rows(quarantine)] == [1, 3]
    # A rival commits between the two commits. The job commits the same files, and quarantines no row a second time.
    query = values("id, customer", "6, NULL", "7, 'b'")
    rival = values("id, customer", "8, 'c'")
    run_before_commits(
        monkeypatch, lambda: None,
        lambda: write_rows(spark, table, rival, mode="overwrite", replace_where="id = 8"),
    )  # fmt: skip
    result = write_rows(spark, table, query, run="s", mode="overwrite", replace_where="id IN (7, 8)", **audits)
    assert (result.quarantine.rows, result.quarantine.version) == (1, DeltaTable(str(quarantine)).version)
    assert [row[0] for row in rows(table)] == [2, 4, 5, 7]
    assert sum("commitInfo" in action for action in actions_of(quarantine, result.quarantine.version)) == 1
    # A rival loads the new version of the source, so the run has nothing to load and removes its rejected rows.
    write_rows(spark, source, values("id, customer", "9, NULL", "10, 'd'"))
    run_before_commits(
        monkeypatch, lambda: None, lambda: write_rows(spark, table, run="rival", sources=sources, **audits)
    )
    assert write_rows(spark, table, run="u", sources=sources, **audits).skip_reason
    assert [row["run"] for row in rejected_rows(quarantine) if row["record"]["id"] == 9] == ["rival"]


@pytest.mark.parametrize(
    ("rerun", "is_kept"),
    [
        pytest.param({"mode": "overwrite", "on_rerun": "write"}, False, marks=pytest.mark.campaign),
        ({"on_rerun": "replace"}, False),
        ({"on_rerun": "write"}, True),
    ],
)
def test_a_cleared_run_replaces_rejected_rows_if_it_replaces_its_good_rows(spark, tmp_path, rerun, is_kept):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"

    def write(values_of_rows, generation, run="r"):
        query = values("id, customer", *values_of_rows)
        write_rows(
            spark, table, query, run=run, generation=generation, **rerun, **quarantine_options(quarantine, CUSTOMERS)
        )  # fmt: skip
        table_rows = DeltaTable(str(quarantine)).to_arrow().to_pylist()
        return [row["txn_version"] for row in table_rows if row["run"] == "r"]

    write(["3, NULL", "4, 'b'"], 0, run="other")
    assert write(["1, NULL", "2, 'a'"], 0) == [0]
    assert sorted(write(["1, NULL", "2, 'a'"], 1)) == ([0, 1] if is_kept else [1]), (
        "only a replaced run has each bad row once"
    )
    assert sorted(write(["1, 'correct'", "2, 'a'"], 2)) == ([0, 1] if is_kept else []), (
        "a replaced run has no old bad row"
    )
    assert [row["run"] for row in rejected_rows(quarantine)].count("other") == 1


def test_an_overwrite_with_only_bad_rows_replaces_nothing(spark, tmp_path):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    write_rows(spark, table, values("id, customer", "1, 'a'", "20, 'b'"))
    query = values("id, customer", "2, NULL", "-1, 'c'")
    audits = quarantine_options(quarantine, CUSTOMERS, {"name": "ids", "rows": "id < 0"})
    for replaced in ({}, {"replace_where": "id < 10"}):
        with pytest.raises(AuditFailedError, match="'customers', 'ids' together reject 2 of 2 rows"):
            write_rows(spark, table, query, run="r", mode="overwrite", **replaced, **audits)
    assert ([row[0] for row in rows(table)], quarantine.exists()) == ([1, 20], False)


def test_a_condition_that_fails_for_a_row_is_an_error_of_its_audit(spark, tmp_path):
    query = values("id, x", "1, 'a'", "2, '3'")
    numbers = quarantine_options(
        tmp_path / "quarantine", {"name": "first", "rows": "id < 0"}, {"name": "num", "rows": "INT(x) < 0"}
    )
    with pytest.raises(InvalidRequestError, match=r"the audit 'num' with the SQL \(INT\(x\) < 0\) fails") as failure:
        write_rows(spark, tmp_path / "t", query, **numbers)
    assert "try_cast(x AS INT) IS NULL OR" in failure.value.remedy
    with pytest.raises(SourceError, match="a row cannot be computed"):  # the query fails without the audits
        write_rows(spark, tmp_path / "t", f"SELECT id, CAST(x AS INT) AS x FROM ({query})", **numbers)
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_copy_has_one_quarantine_for_bad_records_and_rejected_rows(spark, tmp_path, caplog):
    landing, table, quarantine = tmp_path / "landing", tmp_path / "t", tmp_path / "quarantine"
    write_file(landing, "a.csv", "id,customer\n1,a\nx,a\n2,\n3,c\n")
    audits = quarantine_options(quarantine, CUSTOMERS)
    before = folder_content(tmp_path)
    schema = "id INT, customer STRING"
    checked = copy_files(spark, table, landing, run="r", schema=schema, validate_only=10, **audits)
    assert (checked.metrics["numValidRows"], checked.metrics["numQuarantinedRows"]) == (2, 2)
    assert folder_content(tmp_path) == before
    result = copy_files(spark, table, landing, run="r", schema=schema, **audits)
    assert [row[0] for row in rows(table)] == [1, 3]
    table_rows = DeltaTable(str(quarantine)).to_arrow().to_pylist()
    assert sorted((row["line"] or 0, row["record"], row["audit"]) for row in table_rows) == [
        (0, '{"id":2,"customer":null}', "customers"), (3, "x,a", None),
    ]  # fmt: skip
    assert (result.quarantine.rows, result.audits[0].measured, result.audits[0].rows) == (2, 1, 3)
    assert re.search(r"Leaving out 1 bad record: .*a\.csv:3", caplog.text)
    spark.sql("SELECT 4 AS id, CAST(NULL AS STRING) AS customer UNION ALL SELECT 5, 'e'").write.parquet(
        str(tmp_path / "parquet")
    )
    result = copy_files(spark, table, tmp_path / "parquet", "parquet", run="s", source_options={}, **audits)
    assert (result.quarantine.rows, [row[0] for row in rows(table)]) == (1, [1, 3, 5])
    assert loaded_names(table)[0] == "a.csv"
