"""Source rows that audits of level `quarantine` reject go to the quarantine table, and take no part in the merge."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import AuditFailedError, InvalidRequestError, SourceError
from deltalite.requests import Deduplicate, OnRerun, RunIdentity, Source, TableRequest
from tests.support.merging import merge_into
from tests.support.quarantine import fail_at_target_commit, quarantine_options, rejected_rows
from tests.support.racing import run_before_commits
from tests.support.scd import apply_rows
from tests.support.tables import actions_of, folder_content, rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

ON = "target.id = source.id"
UPSERT = {
    "matched": [{"delete": True, "condition": "source.note = 'gone'"}, {"update": {"note": "source.note"}}],
    "inserts": [{"insert": {"id": "source.id", "note": "source.note"}}],
}
NO_ID = {"name": "ids", "rows": "id IS NULL"}
NEGATIVE = {"name": "amounts", "rows": "source.amount < 0", "max_share": 1}


def identity_after_clears(generation):
    """The identity of the run `r` after `generation` clears."""
    return RunIdentity(app_id="r", txn_version=generation, on_rerun=OnRerun.WRITE)


@pytest.mark.smoke
def test_rejected_source_rows_take_no_part_in_a_merge(spark, tmp_path):
    """The first run creates the table, the second run changes it. An audit reads `amount`, which the table lacks."""
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    newest = Deduplicate(keys=("id",), order_by="at")
    audits = quarantine_options(quarantine, NO_ID, NEGATIVE, {"name": "notes", "rows": "note = 'bad'", "level": "fail"})

    def run(name, *source_rows):
        query = values("id, note, amount, at", *source_rows)
        return merge_into(
            spark, table, query, ON, **UPSERT, run=name, deduplicate=newest, create_if_missing=True, **audits
        )

    first = run("a", "1, 'one', 5, 1", "2, 'two', 5, 1", "3, 'old', 5, 1", "3, 'bad', -1, 2", "NULL, 'bad', -1, 1")
    assert rows(table) == [(1, "one"), (2, "two"), (3, "old")], "an older good row applies if the newest row is bad"
    quarantined_rows = rejected_rows(quarantine)
    assert [(row["audit"], row["record"]) for row in quarantined_rows] == [
        ("amounts", {"id": 3, "note": "bad", "amount": -1, "at": 2}),
        ("ids", {"id": None, "note": "bad", "amount": -1, "at": 1}),
    ]
    assert quarantined_rows[1]["reason"] == (
        "The audit 'ids' rejects rows for which (id IS NULL) is true, and the audit 'amounts' rejects rows for which "
        "(source.amount < 0) is true."
    )
    assert (first.operation, first.quarantine.rows, first.quarantine.version) == ("MERGE", 2, 0)
    assert [(a.name, a.measured, a.rows) for a in first.audits] == [
        ("ids", 1, 5),
        ("amounts", 2, 5),
        ("notes", 0, 3),
    ]

    # The bad rows have a matched key, a key that a good row has too, a new key, and no key.
    second = run(
        "b", "1, 'bad', -1, 9", "2, 'new', 1, 1", "2, 'gone', -1, 2", "3, 'gone', 1, 1", "4, 'bad', -1, 1",
        "5, 'five', 1, 1", "NULL, 'bad', -1, 1",
    )  # fmt: skip
    assert rows(table) == [(1, "one"), (2, "new"), (5, "five")]
    assert [row["record"]["id"] for row in rejected_rows(quarantine, "b")] == [1, 2, 4, None]
    assert {(row["target"], row["txn_version"]) for row in rejected_rows(quarantine)} == {(str(table), 0)}
    assert (second.quarantine.rows, second.quarantine.version, second.metrics["numQuarantinedRows"]) == (4, 1, 4)
    assert (second.metrics["numSourceRows"], second.metrics["numTargetRowsInserted"]) == (3, 1)
    assert [(a.name, a.measured, a.rows) for a in second.audits][:2] == [("ids", 1, 7), ("amounts", 4, 7)]
    parameters = DeltaTable(str(table)).history(limit=1)[0]["operationParameters"]
    assert (parameters["quarantine"], parameters["quarantineVersion"]) == (str(quarantine), "1")
    assert {audit["name"] for audit in json.loads(parameters["audits"])} == {"ids", "amounts", "notes"}

    retry = run("b", "9, 'nine', -1, 9")
    assert (retry.skipped, retry.quarantine, retry.audits) == (True, second.quarantine, second.audits)
    only_bad = run("c", "6, 'bad', -1, 1")
    assert (only_bad.committed, only_bad.quarantine.rows, only_bad.metrics["numSourceRows"]) == (True, 1, 0)


@pytest.mark.campaign
def test_the_quarantine_gets_a_commit_only_if_the_merge_commits_and_rejects_rows(spark, tmp_path):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"

    def run(name, row):
        query = values("id, note, amount", row)
        return merge_into(
            spark,
            table,
            query,
            ON,
            **UPSERT,
            run=name,
            create_if_missing=True,
            **quarantine_options(quarantine, NO_ID, NEGATIVE),
        )

    run("c", "5, 'bad', -1")
    clean = run("d", "6, 'six', 1")
    assert (clean.quarantine.version, clean.quarantine.rows) == (None, 0)
    versions = (DeltaTable(str(table)).version, DeltaTable(str(quarantine)).version)
    without_run = run(None, "6, 'six', -1")
    assert (without_run.committed, without_run.quarantine.rows) == (True, 1), "the quarantine has a row of this commit"
    unchanged = merge_into(
        spark, table, values("id", "6"), ON, matched=[{"delete": True, "condition": "false"}],
        **quarantine_options(quarantine, NO_ID),
    )  # fmt: skip
    assert (unchanged.committed, unchanged.quarantine.rows) == (False, 0)
    assert (DeltaTable(str(table)).version, DeltaTable(str(quarantine)).version) == (versions[0] + 1, versions[1] + 1)


@pytest.mark.sample("type 2")
@pytest.mark.parametrize("operation", ["new table", "merge", "type 1", "type 2"])
def test_each_source_row_is_either_merged_or_quarantined(spark, tmp_path, operation):
    """Each step that reads the source gets the same rows, even if two computations of the source would differ.

    Spark gives `rand()` a seed when it analyzes a query, so two computations of one plan return the same numbers.
    """
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    draw = "CAST(DOUBLE(java_method('java.lang.Math', 'random')) * 100 AS INT)"
    query = f"SELECT id, {draw} AS draw FROM (SELECT /*+ REPARTITION(5) */ id FROM range(500))"
    audits = quarantine_options(
        quarantine, {"name": "low", "rows": "draw < 30"}, {"name": "fives", "rows": "draw % 5 = 0"}
    )
    if operation in ("new table", "merge"):
        if operation == "merge":
            define_table(spark, TableRequest(table=str(table), schema="id BIGINT, draw INT"))
        result = merge_into(
            spark, table, query, ON, matched=[{"update": "*"}], inserts=[{"insert": "*"}], run="r",
            create_if_missing=True, deduplicate=Deduplicate(keys=("id",), order_by="draw"), **audits,
        )  # fmt: skip
    else:
        scd_options = {"sequence_by": "1", "scd_type": 2 if operation == "type 2" else 1, "run": "r", **audits}
        apply_rows(spark, table, "SELECT -1L AS id, 99 AS draw", sequence_by="1", scd_type=scd_options["scd_type"])
        result = apply_rows(spark, table, query, **scd_options)
    written = [row[:2] for row in rows(table) if row[0] >= 0]
    records = [tuple(row["record"].values()) for row in rejected_rows(quarantine)]
    assert sorted(row_id for row_id, _ in [*written, *records]) == list(range(500))
    assert all(draw >= 30 and draw % 5 for _, draw in written)
    assert all(draw < 30 or draw % 5 == 0 for _, draw in records)
    assert [audit.measured for audit in result.audits] == [
        sum(draw < 30 for _, draw in records), sum(draw % 5 == 0 for _, draw in records),
    ]  # fmt: skip


@pytest.mark.campaign
def test_a_history_gets_no_rejected_row(spark, tmp_path):
    """Without the audits, a row without a key or a sequence, or a contradicting row, is an error."""
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    audits = quarantine_options(
        quarantine, {"name": "keys", "rows": "id IS NULL OR seq IS NULL", "max_share": 1}, NEGATIVE
    )
    history = {"sequence_by": "seq", "exclude": ("amount",), **audits}
    first = apply_rows(
        spark, table, values("id, name, seq, amount", "1, 'a', 1, 1", "1, 'b', 1, -1", "NULL, 'a', 1, 1"), run="a",
        **history,
    )  # fmt: skip
    assert [row[:2] for row in rows(table)] == [(1, "a")]
    assert (first.quarantine.rows, first.metrics["numSourceRows"]) == (2, 1)
    second = apply_rows(
        spark, table, values("id, name, seq, amount", "1, 'c', 2, -1", "2, 'd', 2, 1", "2, 'e', NULL, 1"), run="b",
        **history,
    )  # fmt: skip
    assert [row[:2] for row in rows(table)] == [(1, "a"), (2, "d")]
    assert [(row["audit"], row["record"]["name"]) for row in rejected_rows(quarantine, "b")] == [
        ("amounts", "c"), ("keys", "e"),
    ]  # fmt: skip
    assert (second.quarantine.rows, second.metrics["numQuarantinedRows"]) == (2, 2)
    late = apply_rows(spark, table, values("id, name, seq, amount", "1, 'c', 2, 1"), run="c", **history)
    assert [row[:2] for row in rows(table)] == [(1, "a"), (1, "c"), (2, "d")], "the corrected row comes later"
    assert late.quarantine.version is None


def test_a_merge_with_too_many_bad_rows_or_a_wrong_audit_commits_nothing(spark, tmp_path):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    write_rows(spark, table, values("id, note", "1, 'a'"))
    before = folder_content(tmp_path)
    query = values("id, note, amount", "1, 'b', -1", "2, 'x', -2", "3, 'c', 1")

    def failure_of(error, *audits, **overrides):
        with pytest.raises(error) as failure:
            merge_into(
                spark,
                query=query,
                on=ON,
                **UPSERT,
                **{"table": table, **quarantine_options(quarantine, *audits), **overrides},
            )
        return str(failure.value)

    amounts = {"name": "amounts", "rows": "amount < 0"}
    text = failure_of(AuditFailedError, amounts)
    assert "'amounts' (rows on new_rows): measured 2 of 3 rows, allowed max_share=0.5" in text
    assert """Samples of 'amounts': {"amount": -1, "id": 1, "note": "b"}""" in text
    text = failure_of(AuditFailedError, {**NEGATIVE, "max_rows": 1}, table=tmp_path / "new", create_if_missing=True)
    assert """Samples of 'amounts': {"amount": -1, "id": 1, "note": "b"}""" in text
    text = failure_of(InvalidRequestError, {"name": "a", "rows": "nowhere IS NULL"})
    assert "rows of the audit 'a' is (nowhere IS NULL), which cannot be computed" in text
    assert "it is int, not boolean" in failure_of(InvalidRequestError, {"name": "a", "rows": "amount"})
    text = failure_of(InvalidRequestError, {"name": "good", "rows": "id < 0"}, {"name": "n", "rows": "INT(note) < 0"})
    assert "the audit 'n' with the SQL (INT(note) < 0) fails for a row" in text
    assert "or lies in it" in failure_of(InvalidRequestError, NEGATIVE, quarantine=str(table / "bad"))
    failing = {"name": "notes", "rows": "note = 'c'", "level": "fail"}
    assert "'notes'" in failure_of(AuditFailedError, {**amounts, "max_rows": 2}, failing)
    assert "'notes'" not in failure_of(AuditFailedError, {**amounts, "max_rows": 1}, failing)
    after = folder_content(tmp_path)
    assert {name for name in after if "_delta_log" in name} == {name for name in before if "_delta_log" in name}


def test_an_attempt_that_reads_other_rows_replaces_the_rejected_ones(spark, tmp_path, monkeypatch):
    """Each rival commits between the commit to the quarantine and the commit to the target."""
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    audits = quarantine_options(quarantine, NEGATIVE)
    columns = "id, note, amount"
    write_rows(spark, table, values("id, note", "1, 'a'", "2, 'a'"))

    # The same source: the next attempt keeps the rows, and the commit to the quarantine.
    rival = lambda: write_rows(spark, table, values("id, note", "1, 'rival'"), mode="overwrite", replace_where="id = 1")
    run_before_commits(monkeypatch, lambda: None, rival)
    query = values(columns, "1, 'b', 1", "2, 'b', -1")
    result = merge_into(spark, table, query, ON, **UPSERT, run="same", **audits)
    assert (rows(table), result.quarantine.rows, result.quarantine.version) == ([(1, "b"), (2, "a")], 1, 0)
    assert DeltaTable(str(quarantine)).version == 0

    # A self read: the rival makes a bad row good, and a good row bad.
    write_rows(spark, tmp_path / "self", values(columns, "1, 'a', -1", "2, 'a', 1"))
    rival = lambda: write_rows(spark, tmp_path / "self", values(columns, "1, 'a', 1", "2, 'a', -1"), mode="overwrite")
    run_before_commits(monkeypatch, lambda: None, rival)
    sources = {"source": Source(format="delta", path=str(tmp_path / "self"))}
    query = "SELECT id, 'b' AS note, amount FROM source"
    merge_into(spark, tmp_path / "self", query, ON, **UPSERT, run="self", sources=sources, **audits)
    assert rows(tmp_path / "self") == [(1, "b", 1), (2, "a", -1)]
    assert [row["record"]["id"] for row in rejected_rows(quarantine, "self")] == [2]


@pytest.mark.campaign
def test_an_attempt_that_loads_other_versions_replaces_the_rejected_rows(spark, tmp_path, monkeypatch):
    """The first rival loads a part of an incremental source, and the second rival loads the rest."""
    table, quarantine, source = tmp_path / "t", tmp_path / "quarantine", tmp_path / "source"
    audits = quarantine_options(quarantine, NEGATIVE)
    columns = "id, note, amount"
    write_rows(spark, table, values("id, note", "1, 'b'", "2, 'a'"))
    write_rows(spark, source, values(columns, "1, 'x', 1", "3, 'x', -1"))
    load = {"sources": {"source": Source(format="delta", path=str(source), incremental=True)}, **UPSERT, **audits}

    def load_first():
        merge_into(spark, table, None, ON, run="rival", **load)
        write_rows(spark, source, values(columns, "4, 'y', -1", "2, 'y', 1"))

    run_before_commits(monkeypatch, lambda: None, load_first)
    result = merge_into(spark, table, None, ON, run="flow", **load)
    assert rows(table) == [(1, "x"), (2, "y")]
    assert [row["record"]["id"] for row in rejected_rows(quarantine, "flow")] == [4]
    assert result.quarantine.rows == 1
    write_rows(spark, source, values(columns, "5, 'z', -1", "6, 'z', 1"))
    run_before_commits(monkeypatch, lambda: None, lambda: merge_into(spark, table, None, ON, run="rival 2", **load))
    assert merge_into(spark, table, None, ON, run="late", **load).skip_reason
    assert rejected_rows(quarantine, "late") == [], "the run removes the rejected rows that it has stored"
    assert [row["record"]["id"] for row in rejected_rows(quarantine, "rival 2")] == [5]


@pytest.mark.campaign
def test_a_first_merge_that_finds_a_new_table_merges_into_it(spark, tmp_path, monkeypatch):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    query = "SELECT id, 'b' AS note, IF(rand() < 0.5, -1, 1) AS amount FROM range(40)"
    run_before_commits(monkeypatch, lambda: None, lambda: write_rows(spark, table, values("id, note", "0L, 'a'")))
    merge_into(
        spark, table, query, ON, **UPSERT, run="r", create_if_missing=True, **quarantine_options(quarantine, NEGATIVE)
    )  # fmt: skip
    merged = [row_id for row_id, note in rows(table) if note == "b"]
    assert sorted([*merged, *(row["record"]["id"] for row in rejected_rows(quarantine))]) == list(range(40))


@pytest.mark.campaign
def test_a_row_that_deletes_a_key_of_a_history_is_never_rejected(spark, tmp_path):
    table = tmp_path / "t"
    audits = quarantine_options(tmp_path / "quarantine", {"name": "names", "rows": "name IS NULL", "max_share": 1})
    history = {"sequence_by": "seq", "exclude": ("gone",), "delete_when": "gone", **audits}
    rows_of_days = [
        ["1, 'a', 1, false", "2, 'b', 1, CAST(NULL AS BOOLEAN)", "3, CAST(NULL AS STRING), 1, true"],
        ["1, CAST(NULL AS STRING), 2, true", "2, CAST(NULL AS STRING), 2, false"],
    ]
    results = [apply_rows(spark, table, values("id, name, seq, gone", *day), **history) for day in rows_of_days]
    assert [result.quarantine.rows for result in results] == [0, 1]
    history_rows = DeltaTable(str(table)).to_arrow().to_pylist()
    assert [(row["id"], row["name"]) for row in history_rows if row["is_current"]] == [(2, "b")]


@pytest.mark.campaign
def test_a_cleared_merge_shows_each_bad_row_once(spark, tmp_path):
    """A cleared merge reads its source again, but only the new versions of an incremental source."""
    table, quarantine, source = tmp_path / "t", tmp_path / "quarantine", tmp_path / "source"
    write_rows(spark, table, values("id, note", "1, 'a'"))
    audits = quarantine_options(quarantine, NEGATIVE)

    def run(generation, *source_rows):
        query = values("id, note, amount", *source_rows)
        merge_into(spark, table, query, ON, **UPSERT, identity=identity_after_clears(generation), **audits)
        return [(row["record"]["id"], row["txn_version"]) for row in rejected_rows(quarantine, "r")]

    assert run(0, "2, 'b', -1", "3, 'b', -1") == [(2, 0), (3, 0)]
    assert run(1, "2, 'b', -1", "3, 'b', 1") == [(2, 1)]
    assert run(2, "2, 'b', 1", "3, 'b', 1") == []
    load = {"sources": {"source": Source(format="delta", path=str(source), incremental=True)}, **UPSERT, **audits}
    for generation in (3, 4):
        write_rows(spark, source, values("id, note, amount", f"{generation}, 'c', -1"))
        merge_into(spark, table, None, ON, identity=identity_after_clears(generation), **load)
    assert [row["record"]["id"] for row in rejected_rows(quarantine, "r")] == [3, 4], "no run reads the first row again"
    define_table(spark, TableRequest(table=str(table), reset_flows={str(source): None}))
    merge_into(spark, table, None, ON, identity=identity_after_clears(5), **load)
    assert [(row["record"]["id"], row["txn_version"]) for row in rejected_rows(quarantine, "r")] == [(3, 5), (4, 5)]


def test_a_retry_replaces_the_rows_of_a_killed_merge(spark, tmp_path, monkeypatch):
    table, quarantine = tmp_path / "t", tmp_path / "quarantine"
    write_rows(spark, table, values("id, note", "1, 'a'"))

    def run(*source_rows):
        query = values("id, note, amount", *source_rows)
        return merge_into(spark, table, query, ON, **UPSERT, run="r", **quarantine_options(quarantine, NEGATIVE))

    fail_at_target_commit(monkeypatch)
    with pytest.raises(SourceError, match="killed"):
        run("1, 'b', -1", "2, 'b', -1")
    assert ([row["record"]["id"] for row in rejected_rows(quarantine)], rows(table)) == ([1, 2], [(1, "a")])
    result = run("1, 'b', -1", "2, 'b', 1")
    assert ([row["record"]["id"] for row in rejected_rows(quarantine)], rows(table)) == ([1], [(1, "a"), (2, "b")])
    assert sum("commitInfo" in action for action in actions_of(quarantine, result.quarantine.version)) == 1
