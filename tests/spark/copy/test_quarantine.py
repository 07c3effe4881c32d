"""A run stores its bad records once in the quarantine table, and its good records in the target. It loses no record."""

from __future__ import annotations

import json
import re

import pytest

import deltalite.commands.quarantine.table as quarantine_module
import deltalite.spark.reader.bad_records as bad_records_module
from deltalite import DeltaTable
from deltalite.commands.table import define_table
from deltalite.errors import (
    AppendOnlyError,
    ConcurrentTransactionException,
    ConstraintViolationError,
    DeltaLiteError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceError,
)
from deltalite.requests import TableRequest
from deltalite.results import OperationResult
from deltalite.spark.reader import observed_files
from tests.support.copying import copy_files, loaded_names, write_file
from tests.support.quarantine import fail_at_target_commit
from tests.support.racing import run_before_commits
from tests.support.tables import delta_rs_rows, folder_content, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

SCHEMA = "id INT, name STRING, amount DECIMAL(5,2)"
BAD_CSV = (
    "# comment\n\nid,name,amount\n1,one,1.5\nx,two,1\n3\n4,four,1,more\n \n"
    '5,"quo,ted",1.005\n6,,\n,,\nid,name,amount\n7,"a,b",z\n'
)
CSV_OPTIONS = {"header": "true", "comment": "#"}


@pytest.fixture
def table(spark, tmp_path):
    """An empty table."""
    define_table(spark, TableRequest(table=str(tmp_path / "orders"), schema=SCHEMA))
    return tmp_path / "orders"


def quarantined_rows(quarantine, **filters):
    """Return the quarantined rows that have the values `filters`, as dictionaries in the order of the files."""
    table_rows = DeltaTable(str(quarantine)).to_arrow().to_pylist()
    matching_rows = [row for row in table_rows if all(row[name] == value for name, value in filters.items())]
    return sorted(matching_rows, key=lambda row: (row["file"], row["line"] or 0, row["record"]))


@pytest.mark.smoke
def test_bad_records_are_quarantined_once_with_their_lines_and_reasons(spark, landing, table, quarantine):
    bad = write_file(landing, "day=1/a b%20.csv", BAD_CSV)
    write_file(landing, "other.csv", "name,id\none,y\ntwo,2\n")
    write_file(landing, "good.csv", "id\n8\n9\n10\n")
    options = {"quarantine": str(quarantine), "source_options": CSV_OPTIONS}
    define_table(spark, TableRequest(table=str(table), schema=f"{SCHEMA}, day STRING"))
    first = copy_files(spark, table, landing, run="first", user_metadata="note", **options)
    assert sorted((row[0], row[1], str(row[2])) for row in rows(table) if row[0] is not None) == [
        (1, "one", "1.50"), (2, "two", "None"), (6, None, "None"), (8, None, "None"), (9, None, "None"),
        (10, None, "None"),
    ]  # fmt: skip
    rows_of_bad_file = quarantined_rows(quarantine, file=str(bad))
    assert [(row["line"], row["record"], row["reason"]) for row in rows_of_bad_file] == [
        (5, "x,two,1", "The column 'id' has the type int, and the text 'x' cannot be read as it."),
        (6, "3", "The record has too few columns: 1 instead of 3."),
        (7, "4,four,1,more", "The record has too many columns: 4 instead of 3."),
        (9, '5,"quo,ted",1.005',
         "The column 'amount' has the type decimal(5,2), and the text '1.005' does not convert to it without loss."),
        (12, "id,name,amount", "The column 'id' has the type int, and the text 'id' cannot be read as it."),
        (13, '7,"a,b",z',
         "The column 'amount' has the type decimal(5,2), and the text 'z' does not convert to it without loss."),
    ]  # fmt: skip
    others = quarantined_rows(quarantine, file=str(landing / "other.csv"))
    assert [(row["line"], row["record"], row["run"], row["audit"]) for row in others] == [(2, "one,y", "first", None)]
    assert delta_rs_rows(quarantine) == rows(quarantine)

    assert first.quarantine.rows == first.metrics["numQuarantinedRows"] == 7
    assert (first.quarantine.table, first.quarantine.version) == (str(quarantine), 0)
    assert OperationResult.from_dict(json.loads(json.dumps(first.as_dict()))).quarantine == first.quarantine
    newest = DeltaTable(str(table)).history(limit=1)[0]
    assert newest["operationParameters"]["quarantine"] == str(quarantine)
    assert (newest["operationParameters"]["quarantineVersion"], newest["operationMetrics"]["numQuarantinedRows"]) == (
        "0", "7",
    )  # fmt: skip
    retry = copy_files(spark, table, landing, run="first", **options)
    assert (retry.skipped, retry.quarantine) == (True, first.quarantine)
    assert copy_files(spark, table, landing, run="nothing new", **options).skip_reason
    write_file(landing, "clean.csv", "id\n11\n")
    clean = copy_files(spark, table, landing, run="clean", **options)
    assert (clean.quarantine.version, clean.metrics["numQuarantinedRows"]) == (None, 0)
    assert DeltaTable(str(quarantine)).version == 0
    copy_files(spark, table, landing, run="forced", force=True, **options)
    assert (len(quarantined_rows(quarantine, run="first")), len(quarantined_rows(quarantine, run="forced"))) == (7, 7)


@pytest.mark.campaign
def test_a_load_of_very_many_files_reads_the_files_with_bad_records_again(
    spark, landing, table, quarantine, monkeypatch
):
    monkeypatch.setattr(observed_files, "MAX_KEYS", 97)
    bad = [str(write_file(landing, name, "id\nx\n")) for name in ("a b/%20.csv", "x%41ü#.csv", "-.csv")]
    for number in range(97):
        write_file(landing, f"good-{number}.csv", "id\n1\n")
    read_again = []
    second_query = bad_records_module._bad_records
    monkeypatch.setattr(
        bad_records_module,
        "_bad_records",
        lambda spark, part, addresses: read_again.append(addresses) or second_query(spark, part, addresses),
    )
    options = {"quarantine": str(quarantine), "source_options": {"header": "true"}}
    result = copy_files(spark, table, landing, **options)
    assert (result.metrics["numLoadedFiles"], result.quarantine.rows) == (100, 3)
    assert [(row["file"], row["line"]) for row in quarantined_rows(quarantine)] == [(file, 2) for file in sorted(bad)]
    (addresses,) = read_again
    assert set(bad) <= set(addresses) and len(addresses) < 20
    write_file(landing, "other delimiter.csv", "id\n" + "y\n" * 100)
    with pytest.raises(SourceError, match=r"other delimiter\.csv"):
        copy_files(spark, table, landing, max_bad_share=0.1, force=True, **options)


@pytest.mark.campaign
def test_whole_json_records_are_checked_although_the_query_reads_one_column(spark, tmp_path, landing, quarantine):
    text = (
        '{"id":1,"n":{"a":1}}\n{"id":"x"}\n[{"id":2},{"id":3}]\n[{"id":4},{"id":"y"}]\n\n5\nnull\n[]\n[1]\n{"id":1\n[5,\n'
        '{"n":{"a":"z"}}\n[null]\n{"id":7}\n'
    )
    write_file(landing, "a.json", text)
    target = tmp_path / "by query"
    result = copy_files(
        spark, target, landing, "json", schema="id INT, d DATE, n STRUCT<a: INT>", quarantine=str(quarantine),
        max_bad_share=1, query="SELECT x.id FROM source x LEFT JOIN source y ON x.id = y.id", run="r",
    )  # fmt: skip
    assert rows(target) == [(1,), (2,), (3,), (7,)], "the query needs one column, and whole records are checked"
    assert [(row["line"], row["record"]) for row in quarantined_rows(quarantine)] == [
        (2, '{"id":"x"}'), (4, '[{"id":4},{"id":"y"}]'), (6, "5"), (7, "null"), (9, "[1]"), (10, '{"id":1'),
        (11, "[5,"), (12, '{"n":{"a":"z"}}'), (13, "[null]"),
    ]  # fmt: skip
    assert result.metrics["numQuarantinedRows"] == 9
    reasons = {row["line"]: row["reason"] for row in quarantined_rows(quarantine)}
    assert reasons[6] == "Spark cannot read the record as a JSON object."
    assert (
        reasons[12] == "The column 'n' has the type struct<a:int>, and the text '{\"a\":\"z\"}' cannot be read as it."
    )
    assert "'id' has the type int, and the text 'y'" in reasons[4]


@pytest.mark.campaign
def test_values_that_are_read_as_text_and_records_of_several_lines_are_quarantined(
    spark, tmp_path, landing, quarantine
):
    schema = "id INT, d DATE, amount DECIMAL(5,2), items ARRAY<STRUCT<p: DECIMAL(5,2)>>"
    define_table(spark, TableRequest(table=str(tmp_path / "json"), schema=schema))
    write_file(
        landing,
        "1/a.json",
        '{"d":"2026-01-01T10:00:00"}\n[{"amount":1.005},{"id":1}]\n{"items":[{"p":1.005}]}\n{"id":2}\n',
    )
    options = {"quarantine": str(quarantine), "max_bad_share": 1}
    copy_files(spark, tmp_path / "json", landing / "1", "json", run="1", **options)
    assert [row[0] for row in rows(tmp_path / "json")] == [1, 2]
    assert [(row["line"], row["record"]) for row in quarantined_rows(quarantine)] == [
        (1, '{"d":"2026-01-01T10:00:00"}'), (2, '{"amount":1.005}'), (3, '{"items":[{"p":1.005}]}'),
    ]  # fmt: skip
    write_file(landing, "2/a.json", '[{"id":3},\n{"id":"y"}]')
    write_file(landing, "2/b.json", '[{"id":4},\n{"id":5, "amount":1.005}]')
    multi_line = {"multiLine": "true"}
    copy_files(spark, tmp_path / "json", landing / "2", "json", run="2", source_options=multi_line, **options)
    assert [row[0] for row in rows(tmp_path / "json")] == [1, 2, 4]
    assert [(row["line"], row["record"]) for row in quarantined_rows(quarantine, run="2")] == [
        (None, '[{"id":3},\n{"id":"y"}]'), (None, '{"id":5,"amount":1.005}'),
    ]  # fmt: skip
    write_file(landing, "3/a.csv", 'id,name,amount\n1,"o\nne",1.5\nx,"t\nwo",1\n3,a,1.005\n4\n')
    define_table(spark, TableRequest(table=str(tmp_path / "csv"), schema=SCHEMA))
    multi_line |= {"header": "true"}
    copy_files(spark, tmp_path / "csv", landing / "3", run="3", source_options=multi_line, **options)
    assert [row[0] for row in rows(tmp_path / "csv")] == [1]
    assert [(row["line"], row["record"]) for row in quarantined_rows(quarantine, run="3")] == [
        (None, "3,a,1.005"), (None, "4"), (None, 'x,"t\nwo",1'),
    ]  # fmt: skip


def test_lines_are_numbered_across_the_blocks_of_a_file(spark, landing, table, quarantine, monkeypatch):
    blocks = {"spark.sql.files.maxPartitionBytes": "40", "spark.sql.files.openCostInBytes": "1"}
    monkeypatch.setattr(bad_records_module, "TEXT_SETTINGS", {**bad_records_module.TEXT_SETTINGS, **blocks})
    lines = [f"{number},name,1" if number % 7 else f"bad {number},name,1" for number in range(2, 60)]
    write_file(landing, "a.csv", "\n".join(["id,name,amount", *lines]))
    write_file(landing, "b.csv", "id,name,amount\n1,x,1\n")
    copy_files(spark, table, landing, quarantine=str(quarantine))
    bad = quarantined_rows(quarantine)
    assert [row["record"] for row in bad] == [f"bad {row['line']},name,1" for row in bad]
    assert [row["line"] for row in bad] == [7, 14, 21, 28, 35, 42, 49, 56]
    assert {row["run"].rpartition("/")[0] for row in bad} == {"deltalite-quarantine"}


def test_a_retry_replaces_the_rows_of_its_run(spark, landing, table, quarantine, monkeypatch):
    options = {"quarantine": str(quarantine), "max_bad_share": 1}
    write_file(landing, "a.csv", "id\nx\ny\n")
    fail_at_target_commit(monkeypatch)
    with pytest.raises(SourceError, match="killed"):
        copy_files(spark, table, landing, run="r", **options)
    assert [row["record"] for row in quarantined_rows(quarantine)] == ["x", "y"]
    assert loaded_names(table) == []
    write_file(landing, "a.csv", "id\n1\nz\n", second=9)
    copy_files(spark, table, landing, run="r", **options)
    assert [row["record"] for row in quarantined_rows(quarantine)] == ["z"]
    write_file(landing, "b.csv", "id\nw\n")
    fail_at_target_commit(monkeypatch)
    with pytest.raises(SourceError, match="killed"):
        copy_files(spark, table, landing, run="it's", **options)
    write_file(landing, "b.csv", "id\n2\n", second=9)
    corrected = copy_files(spark, table, landing, run="it's", **options)
    assert [row["record"] for row in quarantined_rows(quarantine)] == ["z"], (
        "the corrected file has no bad record any more"
    )
    assert (corrected.quarantine.rows, corrected.quarantine.version) == (0, 3)


@pytest.mark.campaign
def test_a_run_that_writes_again_keeps_the_rows_of_its_earlier_commit(spark, landing, table, quarantine, monkeypatch):
    options = {"quarantine": str(quarantine), "max_bad_share": 1, "run": "r", "on_rerun": "write"}
    write_file(landing, "a.csv", "id\nx\n")
    copy_files(spark, table, landing, **options)
    write_file(landing, "b.csv", "id\ny\n")
    copy_files(spark, table, landing, generation=1, **options)
    assert [(row["record"], row["txn_version"]) for row in quarantined_rows(quarantine)] == [("x", 0), ("y", 1)]
    # An orphaned job of the run, which has planned before the run committed, replaces nothing.
    write_file(landing, "c.csv", "id\nz\n")
    bad_records = bad_records_module.RecordSeparation.bad_records

    def bad_records_after_rival(*arguments):
        monkeypatch.undo()
        write_file(landing, "d.csv", "id\nw\n")
        copy_files(spark, table, landing, generation=2, **options)
        return bad_records(*arguments)

    monkeypatch.setattr(bad_records_module.RecordSeparation, "bad_records", bad_records_after_rival)
    orphan = copy_files(spark, table, landing, generation=2, **options)
    assert (orphan.skipped, orphan.quarantine.rows) == (True, 2)
    assert [(row["record"], row["txn_version"]) for row in quarantined_rows(quarantine)] == [
        ("x", 0), ("y", 1), ("z", 2), ("w", 2),
    ]  # fmt: skip
    # A killed attempt has stored rows, and its retry replaces only these.
    write_file(landing, "e.csv", "id\nu\n")
    fail_at_target_commit(monkeypatch)
    with pytest.raises(SourceError, match="killed"):
        copy_files(spark, table, landing, generation=3, **options)
    write_file(landing, "e.csv", "id\nv\n", second=9)
    copy_files(spark, table, landing, generation=4, **options)  # the task was cleared, and not retried
    assert sorted((row["record"], row["txn_version"]) for row in quarantined_rows(quarantine)) == [
        ("v", 4), ("w", 2), ("x", 0), ("y", 1), ("z", 2),
    ]  # fmt: skip


@pytest.mark.campaign
def test_a_run_keeps_the_committed_rows_of_another_run_with_its_idempotency_key(
    spark, landing, table, quarantine, monkeypatch
):
    options = {"quarantine": str(quarantine), "max_bad_share": 1, "run": "key", "on_rerun": "write"}
    write_file(landing, "1/a.csv", "id\nx\n")
    write_file(landing, "2/b.csv", "id\ny\n")
    bad_records = bad_records_module.RecordSeparation.bad_records

    def bad_records_after_rival(*arguments):
        monkeypatch.undo()
        copy_files(spark, table, landing / "2", **options)
        monkeypatch.setattr(quarantine_module, "earlier_result", lambda *_arguments: None)  # as if it were another run
        return bad_records(*arguments)

    monkeypatch.setattr(bad_records_module.RecordSeparation, "bad_records", bad_records_after_rival)
    with pytest.raises(ConcurrentTransactionException, match="has stored no rejected row"):
        copy_files(spark, table, landing / "1", **options)
    assert [row["record"] for row in quarantined_rows(quarantine)] == ["y"]
    # A run with the same key loads into another table.
    other = table.parent / "other"
    define_table(spark, TableRequest(table=str(other), schema=SCHEMA))
    copy_files(spark, other, landing / "1", **options)
    assert [(row["record"], row["target"]) for row in quarantined_rows(quarantine)] == [
        ("x", str(other)),
        ("y", str(table)),
    ]


@pytest.mark.campaign
def test_records_that_readers_and_functions_of_spark_parse_differently_are_quarantined_once(
    spark, tmp_path, landing, quarantine
):
    options = {"quarantine": str(quarantine), "max_bad_share": 1}
    good = b'{"id": 1, "amount": 0.25}'
    lines = {
        "latin-1": b'{"id": 2, "name": "M\xfcller"}', "zeros": b"\x00\x00\x00\x00", "digits": b'{"id": 3, "amount": '
        b"0.10000000000000000555}", "broken": b"{", "blank": b" \t", "mark": b'\xef\xbb\xbf{"id": 4}',
    }  # fmt: skip
    for name, line in lines.items():
        write_file(landing, f"{name}.json", "").write_bytes(b"\n".join((good, line, good)))
    define_table(spark, TableRequest(table=str(tmp_path / "t"), schema=SCHEMA))
    result = copy_files(spark, tmp_path / "t", landing, "json", run="r", **options)
    records = {row["file"].rpartition("/")[2].removesuffix(".json"): row for row in quarantined_rows(quarantine)}
    assert sorted(records) == ["broken", "digits", "latin-1", "zeros"]
    assert len(records) == result.quarantine.rows and len(rows(tmp_path / "t")) == 2 * len(lines) + 1
    assert records["latin-1"]["record"] == '{"id": 2, "name": "M\ufffdller"}'
    write_file(landing / "csv", "a.csv", "").write_bytes(b"x,M\xfcller,1\n1,M\xfcller,1\n")
    write_file(landing / "ascii", "b.csv", "").write_bytes(b"y,one,1\n2,M\xfcller,1\n")
    csv_options: dict[str, str] = {}
    copy_files(spark, tmp_path / "t", landing / "csv", run="csv", source_options=csv_options, **options)
    csv_options["encoding"] = "US-ASCII"
    copy_files(spark, tmp_path / "t", landing / "ascii", run="ascii", source_options=csv_options, **options)
    assert {row["record"] for row in quarantined_rows(quarantine)} >= {"x,M\ufffdller,1", "y,one,1"}
    # The subquery reads only a part of the file.
    write_file(landing / "query", "c.csv", "id\n" + "5\n" * 40 + "z\n")
    result = copy_files(
        spark, tmp_path / "t", landing / "query", run="query", schema="id INT",
        query="SELECT id, CAST(NULL AS STRING) AS name, CAST(NULL AS DECIMAL(5,2)) AS amount FROM source "
        "WHERE EXISTS (SELECT 1 FROM source WHERE id = 5)", **options,
    )  # fmt: skip
    assert (result.metrics["numOutputRows"], result.quarantine.rows) == (40, 1)


@pytest.mark.campaign
def test_runs_that_share_a_quarantine_at_the_same_time_both_succeed(
    spark, tmp_path, landing, table, quarantine, monkeypatch
):
    write_file(landing, "1/a.csv", "id\n1\nx\n")
    write_file(landing, "2/b.csv", "id\n2\ny\n")
    options = {"quarantine": str(quarantine)}
    # The rival commits to both tables before the first commit of the run, which would create the quarantine.
    run_before_commits(monkeypatch, lambda: copy_files(spark, table, landing / "2", run="rival", **options))
    copy_files(spark, table, landing / "1", run="run", **options)
    assert [row[0] for row in rows(table)] == [1, 2]
    assert [(row["record"], row["run"]) for row in quarantined_rows(quarantine)] == [("x", "run"), ("y", "rival")]
    # A rival loads the same file after the run has stored its bad record.
    write_file(landing, "3/e.csv", "id\n5\nv\n", second=1)
    run_before_commits(
        monkeypatch, lambda: None, lambda: copy_files(spark, table, landing / "3", run="third rival", **options)
    )
    assert copy_files(spark, table, landing / "3", run="third run", **options).skip_reason
    assert [row["run"] for row in quarantined_rows(quarantine, record="v")] == ["third rival"]
    write_file(landing, "1/c.csv", "id\n3\nz\n", second=1)
    write_file(landing, "2/d.csv", "id\n4\nw\n", second=1)
    run_before_commits(
        monkeypatch, lambda: None, lambda: copy_files(spark, table, landing / "2", run="second rival", **options)
    )
    copy_files(spark, table, landing / "1", run="second run", **options)
    assert [row[0] for row in rows(table)] == [1, 2, 3, 4, 5]
    assert sorted(row["record"] for row in quarantined_rows(quarantine)) == ["v", "w", "x", "y", "z"]
    assert loaded_names(table) == ["a.csv", "b.csv", "c.csv", "d.csv", "e.csv"]


def test_a_quarantine_that_does_not_fit_is_refused_before_anything_is_written(
    spark, tmp_path, landing, table, quarantine
):
    write_file(landing, "a.csv", "id\n1\nx\n")
    other = tmp_path / "other"
    write_rows(spark, other, "SELECT 1 AS id")
    append_only = tmp_path / "append only"
    columns = "file STRING, line BIGINT, reason STRING, record STRING, audit STRING, target STRING, "
    columns += "run STRING, txn_version BIGINT, at TIMESTAMP"
    define_table(spark, TableRequest(table=str(append_only), schema=columns, properties={"delta.appendOnly": "true"}))
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x.txt").write_text("x")
    content_before = folder_content(tmp_path)
    for address, error, problem in (
        (other, SchemaMismatchError, rf"The quarantine {re.escape(str(other))}: .*has the columns id int"),
        (append_only, AppendOnlyError, "a retry replaces"),
        (tmp_path / "files", InvalidRequestError, "holds other files"),
        (landing / "bad", InvalidRequestError, "the source .* or lies in it"),
        (tmp_path / "x" / ".." / "orders", DeltaLiteError, "or lies in it|parent"),
        (table / "bad", InvalidRequestError, "the table .* or lies in it"),
    ):
        with pytest.raises(error, match=problem):
            copy_files(spark, table, landing, run="r", quarantine=str(address))
    with pytest.raises(InvalidRequestError, match=r"the source has no schema.*DeltaTableOperator"):
        copy_files(spark, tmp_path / "new", landing, run="r", quarantine=str(quarantine))
    write_file(landing, "b.csv", "id\ny\n")
    with pytest.raises(SourceError, match=r"2 of 3 records did not fit.*the limit is 1\..*a\.csv:3: The column 'id'"):
        copy_files(spark, table, landing, run="r", quarantine=str(quarantine), max_bad_share=0.5)
    (landing / "b.csv").unlink()
    assert folder_content(tmp_path) == content_before


def test_a_validation_shows_what_a_load_would_quarantine(spark, landing, table, quarantine, caplog):
    write_file(landing, "a.csv", "id\n1\nx\n2\n")
    write_file(landing, "b.csv", "id\n3\n")
    content_before = folder_content(table.parent)
    result = copy_files(spark, table, landing, run="r", quarantine=str(quarantine), validate_only=1)
    assert (result.committed, result.metrics["numValidRows"], result.metrics["numQuarantinedRows"]) == (False, 1, 1)
    assert "a.csv:3: The column 'id' has the type int, and the text 'x' cannot be read as it." in caplog.text
    assert folder_content(table.parent) == content_before


def test_bad_records_are_separated_even_if_spark_observes_nothing(spark, landing, table, quarantine):
    define_table(spark, TableRequest(table=str(table), constraints={"positive": "id > 0"}))
    write_file(landing, "a.csv", "id\n1\nx\n")
    # Spark removes the read of the files from this query, so it observes nothing.
    result = copy_files(
        spark, table, landing, run="r", quarantine=str(quarantine), schema="id INT",
        query="SELECT id, CAST(NULL AS STRING) AS name, CAST(NULL AS DECIMAL(5,2)) AS amount FROM source WHERE 1 = 0",
    )  # fmt: skip
    assert (result.metrics["numOutputRows"], result.metrics["numQuarantinedRows"]) == (0, 1)
    write_file(landing, "b.csv", "id\n-1\ny\n")
    with pytest.raises(ConstraintViolationError, match="positive"):
        copy_files(spark, table, landing, run="s", quarantine=str(quarantine))
    assert [row["record"] for row in quarantined_rows(quarantine)] == ["x"], (
        "a row that breaks a rule of the table is not quarantined"
    )
