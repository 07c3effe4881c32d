"""Audits run on the staged rows: a failed audit leaves the table as it was, and a commit holds the results."""

from __future__ import annotations

import json
from functools import partial

import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.commands.common import auditing
from deltalite.commands.common.committing import now_ms
from deltalite.commands.vacuum import vacuum
from deltalite.commands.write import attempt
from deltalite.errors import AuditFailedError, ConcurrentAppendException, InvalidRequestError
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import Audit, VacuumRequest
from deltalite.spark.audits import resolving
from tests.support.column_rules import field, identity_field, write_empty_table
from tests.support.merging import merge_into
from tests.support.properties import FEED, VECTORS
from tests.support.racing import run_before_commits
from tests.support.tables import data_files, delete_rows, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

TABLES = {"plain": {}, "vectors": VECTORS, "feed": FEED}


def kinds(*in_each_run):
    """The kinds of tables as parameters. Only the kinds `in_each_run` run outside the campaign."""
    return [pytest.param(kind, marks=[] if kind in in_each_run else pytest.mark.campaign) for kind in TABLES]


NO_NULL = Audit(name="no null", rows="x IS NULL")
COUNT = Audit(name="count", row_count=True, min=0)


def new_row_count(count):
    """An audit that passes for exactly `count` new rows."""
    return Audit(name="new rows", row_count=True, min=count, max=count, on="new_rows")


def audits_in_log(table):
    """(name, passed, measured) for each audit of the newest commit."""
    stored = json.loads(DeltaTable(str(table)).history(limit=1)[0]["operationParameters"]["audits"])
    return [(audit["name"], audit["passed"], audit["measured"]) for audit in stored]


def test_a_failed_audit_of_an_append_commits_nothing_and_keeps_the_staged_rows_until_a_vacuum(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1", "2, 2"), run="r1", audits=(NO_NULL, new_row_count(2)))
    assert audits_in_log(table) == [("no null", True, 0), ("new rows", True, 2)]
    before = data_files(table)
    with pytest.raises(AuditFailedError, match=r"'no null' \(rows on new_rows\): measured 1 of 2 rows") as caught:
        write_rows(spark, table, values("id, x", "3, 3", "4, NULL"), audits=(NO_NULL,))
    assert DeltaTable(str(table)).version == 0
    staged_files = set(data_files(table)) - set(before)
    assert all(str(file) in caught.value.problem for file in staged_files)
    assert "until a full vacuum" in caught.value.problem
    assert sorted(n for file in staged_files for n in pq.read_table(table / file)["id"].to_pylist()) == [3, 4]
    assert not (table / "_deltalite_staging").exists()
    warned = write_rows(
        spark, table, values("id, x", "4, CAST(NULL AS INT)"), audits=(Audit(name="w", rows="x IS NULL", level="warn"),)
    )
    assert warned.committed
    assert [(a.name, a.passed, a.measured) for a in warned.audits] == [("w", False, 1)]

    def vacuum_after(days):
        clock_ms = partial(int, now_ms() + days * DAY_MS)
        return vacuum(spark, VacuumRequest(table=str(table)), clock_ms=clock_ms).metrics["numDeletedFiles"]

    assert vacuum_after(days=6) == 0
    assert vacuum_after(days=8) == len(staged_files)
    assert set(data_files(table)) == set(DeltaTable(str(table)).files()["path"].to_pylist())
    assert rows(table) == [(1, 1), (2, 2), (4, None)]


def test_a_retry_returns_the_stored_results_and_runs_no_audit(spark, tmp_path):
    first = write_rows(spark, tmp_path / "t", values("x", "1"), run="r", audits=(NO_NULL, COUNT))
    retry = write_rows(spark, tmp_path / "t", "SELECT raise_error('not run') AS x", run="r", audits=(NO_NULL,))
    assert retry.skipped
    assert retry.audits == first.audits
    assert len(first.audits) == 2


def test_a_failed_first_write_does_not_block_the_next_one(spark, tmp_path):
    with pytest.raises(AuditFailedError):
        write_rows(spark, tmp_path / "t", values("x", "CAST(NULL AS INT)"), audits=(NO_NULL,))
    assert not list((tmp_path / "t" / "_delta_log").glob("*.json"))
    write_rows(spark, tmp_path / "t", values("x", "1"), audits=(NO_NULL,))
    assert rows(tmp_path / "t") == [(1,)]


def test_wrong_sql_is_refused_before_a_row_is_computed(spark, tmp_path):
    with pytest.raises(InvalidRequestError, match="'wrong'"):
        write_rows(
            spark,
            tmp_path / "t",
            "SELECT CAST(raise_error('computed') AS INT) AS x",
            audits=(Audit(name="wrong", rows="y > 1"),),
        )


@pytest.mark.campaign
def test_audits_of_an_overwrite_examine_the_rows_that_the_table_would_have(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(
        spark, table, values("id, x, day", "1, 1, 'a'", "2, 2, 'a'", "3, 3, 'b'", "4, 4, 'b'"), partition_by=("day",)
    )
    audits = (
        Audit(name="change", row_count=True, max_change=0.5),
        Audit(name="key", unique=("id",)),
        Audit(name="sum", aggregate="sum(x)", min=10, on="table"),
    )
    overwrite = partial(write_rows, spark, table, mode="overwrite", replace_where="id >= 3", audits=audits)
    result = overwrite(values("id, x, day", "3, 30, 'b'"))
    assert [(a.name, a.measured, a.before) for a in result.audits] == [
        ("change", 3, 4),
        ("key", 0, None),
        ("sum", 33, None),
    ]
    with pytest.raises(AuditFailedError, match=r"'key'.*measured 4"):
        write_rows(spark, table, values("id, x, day", "1, 3, 'c'", "2, 3, 'c'"), audits=audits)
    with pytest.raises(AuditFailedError, match=r"'change' .*measured 1 row \(3 rows before\).*'sum' .*measured 9"):
        write_rows(spark, table, values("id, x, day", "9, 9, 'a'"), mode="overwrite", audits=audits)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", kinds("vectors"))
def test_new_rows_of_a_merge_are_the_updated_and_the_inserted_rows(spark, tmp_path, kind):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, NULL", "2, 2", "3, 3", "4, 4"), properties=TABLES[kind])
    merge = partial(
        merge_into,
        spark,
        table,
        on="target.id = source.id",
        matched=[{"delete": True, "condition": "source.x < 0"}, {"update": "*"}],
        inserts=[{"insert": "*"}],
    )
    audits = (
        NO_NULL,
        new_row_count(2),
        Audit(name="ids", aggregate="sum(id)", min=7, max=7),
        Audit(name="all", row_count=True, min=4, max=4),
    )
    result = merge(values("id, x", "2, 20", "3, -1", "5, 50"), audits=audits)
    assert audits_in_log(table) == [("no null", True, 0), ("new rows", True, 2), ("ids", True, 7), ("all", True, 4)]
    assert result.version == 1
    with pytest.raises(AuditFailedError, match=r"'no null'.*measured 1 of 2 rows"):
        merge(values("id, x", "4, NULL", "6, 6"), audits=(NO_NULL,))
    assert rows(table) == [(1, None), (2, 20), (4, 4), (5, 50)]
    assert DeltaTable(str(table)).version == 1
    inserted = merge(values("id, x", "7, 7"), audits=(NO_NULL, new_row_count(1)))
    assert inserted.committed
    inserted_again = merge(
        values("id, x", "3, -1"), audits=(Audit(name="some", row_count=True, min=1, on="new_rows", level="warn"),)
    )
    assert [(a.passed, a.measured) for a in inserted_again.audits] == [(True, 1)]


@pytest.mark.campaign
def test_new_rows_of_a_merge_have_null_for_an_empty_partition_value_as_readers_get_it(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, day", "1, 'a'", "2, 'b'"), partition_by=("day",))
    merge = partial(merge_into, spark, table, on="target.id = source.id", inserts=[{"insert": "*"}])
    audits = (Audit(name="no day", rows="day IS NULL", max_rows=2), Audit(name="empty", rows="day = ''"))
    merge(values("id, day", "1, ''", "3, ''", "4, 'c'"), matched=[{"update": "*"}], audits=audits)
    assert audits_in_log(table) == [("no day", True, 2), ("empty", True, 0)]
    assert rows(table) == [(1, None), (2, "b"), (3, None), (4, "c")]


@pytest.mark.parametrize("kind", kinds("vectors"))
def test_an_update_and_a_delete_are_audited(spark, tmp_path, kind):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, NULL", "2, 2", "3, 3"), properties=TABLES[kind])
    update_rows(spark, table, {"x": "x + 1"}, "id = 2", audits=(NO_NULL, new_row_count(1)))
    assert audits_in_log(table) == [("no null", True, 0), ("new rows", True, 1)]
    with pytest.raises(AuditFailedError, match=r"'no null' \(rows on new_rows\): measured 1 of 1"):
        update_rows(spark, table, {"x": "NULL"}, "id = 3", audits=(NO_NULL,))
    with pytest.raises(AuditFailedError, match=r"'no null' \(rows on table\): measured 1 of 2"):
        delete_rows(spark, table, "id = 2", audits=(NO_NULL,))
    delete_rows(spark, table, "x IS NULL", audits=(NO_NULL, Audit(name="half", row_count=True, max_change=0.34)))
    assert audits_in_log(table) == [("no null", True, 0), ("half", True, 2)]
    assert rows(table) == [(2, 3), (3, 3)]


def test_audits_of_the_table_run_again_after_a_blind_append_of_another_writer(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1"), properties={"delta.isolationLevel": "WriteSerializable"})
    unique = Audit(name="key", unique=("id",))
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, x", "2, 2")))
    with pytest.raises(AuditFailedError, match="measured 2"):
        write_rows(spark, table, values("id, x", "2, 3"), audits=(unique, NO_NULL))
    assert rows(table) == [(1, 1), (2, 2)]


def test_audits_of_new_rows_run_once_and_do_not_conflict_with_an_append(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, x", "1, 1"))
    runs = []
    monkeypatch.setattr(auditing, "run_audits", _recording(auditing.run_audits, runs))
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, x", "2, 2")))
    result = write_rows(spark, table, values("id, x", "3, 3"), audits=(NO_NULL,))
    assert (result.version, result.read_version) == (2, 0)
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, values("id, x", "4, 4")))
    write_rows(spark, table, values("id, x", "5, 5"), audits=(NO_NULL, COUNT))
    assert runs == [["no null"], ["no null", "count"], ["count"]]


def _recording(run_audits, runs):
    """Return the function `run_audits`, changed so that each call adds the names of its audits to `runs`."""

    def record_and_run(spark, store, audits, *arguments, **options):
        if audits:
            runs.append([item.audit.name for item in audits])
        return run_audits(spark, store, audits, *arguments, **options)

    return record_and_run


def test_a_reference_to_the_table_itself_sees_the_new_rows(spark, tmp_path):
    table = tmp_path / "t"
    parent = Audit(name="parent", references={"parent": "id"}, in_table=str(table))
    write_rows(spark, table, values("id, parent", "1, NULL", "2, 1", "3, 2"), audits=(parent,))
    with pytest.raises(AuditFailedError, match=r"'parent' \(references on new_rows\): measured 1"):
        write_rows(spark, table, values("id, parent", "4, 3", "5, 6"), audits=(parent,))


@pytest.mark.campaign
def test_a_merge_that_creates_its_table_and_evolves_it_is_audited(spark, tmp_path):
    merge = partial(
        merge_into, spark, tmp_path / "t", on="target.id = source.id", inserts=[{"insert": "*"}], create_if_missing=True
    )
    with pytest.raises(AuditFailedError):
        merge(values("id, x", "1, CAST(NULL AS INT)"), audits=(NO_NULL,))
    assert merge(values("id, x", "1, 1"), audits=(NO_NULL,)).audits[0].passed
    audit = Audit(name="y", aggregate="sum(y)", min=0.3, max=0.3, on="table")
    result = merge(values("id, x, y", "2, 2, 0.3"), merge_schema=True, audits=(audit,))
    assert [(a.measured, a.passed) for a in result.audits] == [(0.3, True)]


def test_an_attempt_loads_another_table_once_for_all_audits(spark, tmp_path, monkeypatch):
    table = write_empty_table(tmp_path / "t", identity_field("n"), field("x", "integer"), features=("identityColumns",))
    write_rows(spark, tmp_path / "other", values("id", "1"))
    snapshot_at, addresses = resolving.snapshot_at, []

    def record_and_load(spark, address):
        addresses.append(address)
        return snapshot_at(spark, address)

    monkeypatch.setattr(resolving, "snapshot_at", record_and_load)
    options = {"references": {"x": "id"}, "in_table": str(tmp_path / "other")}
    audits = (Audit(name="a", **options), Audit(name="b", level="warn", **options))
    assert len(write_rows(spark, table, values("x", "1"), audits=audits).audits) == 2
    assert [address.path for address in addresses] == [str(tmp_path / "other")]


@pytest.mark.campaign
def test_a_second_attempt_with_the_same_rows_reads_the_newest_version_of_another_table(spark, tmp_path, monkeypatch):
    table, other = tmp_path / "t", tmp_path / "other"
    write_rows(spark, table, values("id, x", "1, 1", "2, 2"))
    write_rows(spark, other, values("id", "1"))

    def fail_once(*_arguments, **_options):
        monkeypatch.undo()
        write_rows(spark, other, values("id", "5"))
        raise ConcurrentAppendException("A file of the table was removed.", remedy="Retry.")

    monkeypatch.setattr(attempt, "write_change_files", fail_once)
    audit = Audit(name="x", references={"x": "id"}, in_table=str(other))
    result = write_rows(
        spark, table, values("id, x", "2, 5"), mode="overwrite", replace_where="id >= 2", audits=(audit,)
    )
    assert [(a.passed, a.version) for a in result.audits] == [(True, 1)]
    assert rows(table) == [(1, 1), (2, 5)]
