"""Invalid requests are rejected, and the JSON of a request parses to an equal request."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import (
    DeleteRequest,
    MergeClause,
    MergeRequest,
    OnRerun,
    PartitionOverwrite,
    RunIdentity,
    Source,
    UpdateRequest,
    WriteMode,
    WriteRequest,
)

CSV = Source(format="csv", path="/in/*.csv", options={"header": "true"}, schema="id BIGINT")
DELTA = Source(format="delta", path="/lake/a", version_as_of=0)
PLAIN = {"table": "/lake/t", "sources": {"source": CSV}}
FULL = {
    "table": "/lake/ü t",
    "sources": {
        "a": CSV,
        "b": DELTA,
        "c": Source(format="delta", path="/x", timestamp_as_of="2026-01-01"),
        "d": Source(format="delta", path="/lake/a", changes_from_version=0, changes_to_version=2),
    },
    "identity": RunIdentity(app_id="ns/d", txn_version=2, on_rerun=OnRerun.WRITE, details={"dag": "d", "try": 1}),
    "query": "SELECT * FROM a JOIN b",
    "mode": WriteMode.OVERWRITE,
    "partition_by": ("day", "c d"),
    "replace_where": "day = '1'",
    "merge_schema": True,
    "max_records_per_file": 10,
    "optimize_write": True,
    "data_change": False,
    "user_metadata": "who",
    "properties": {"delta.appendOnly": "true"},
    "conflict_retries": 0,
    "conflict_seconds": 5,
}


@pytest.mark.parametrize(
    "values",
    [
        PLAIN,
        FULL,
        PLAIN | {"mode": WriteMode.OVERWRITE, "partition_overwrite": PartitionOverwrite.DYNAMIC},
        PLAIN | {"mode": WriteMode.OVERWRITE, "overwrite_schema": True, "partition_by": ()},
        PLAIN | {"identity": RunIdentity(app_id="x", on_rerun=OnRerun.REPLACE)},
    ],
)
def test_json_of_a_request_parses_to_an_equal_request(values):
    request = WriteRequest(**values)
    text = request.to_json()
    assert "\n" not in text
    assert WriteRequest.from_json(text) == request
    assert WriteRequest.from_json(text).to_json() == text


def test_enum_values_may_be_text():
    request = WriteRequest(**PLAIN, mode="overwrite", partition_overwrite="dynamic")
    assert (request.mode, request.partition_overwrite) == (WriteMode.OVERWRITE, PartitionOverwrite.DYNAMIC)
    assert RunIdentity(app_id="x", on_rerun="write").on_rerun is OnRerun.WRITE


OVERWRITE = {"mode": WriteMode.OVERWRITE}
DYNAMIC = {"partition_overwrite": PartitionOverwrite.DYNAMIC}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"table": ""}, "names no table"),
        ({"sources": {}}, "no source"),
        ({"sources": {"a": CSV, "b": CSV}}, "2 sources but no query"),
        ({"query": "  "}, "`query` is empty"),
        ({"replace_where": "day = 1"}, "replace_where needs mode 'overwrite', and the mode is 'append'"),
        (OVERWRITE | {"replace_where": " "}, "replace_where is empty"),
        (OVERWRITE | DYNAMIC | {"replace_where": "x = 1"}, "both select the rows to replace"),
        (DYNAMIC, "partition_overwrite='dynamic' needs mode 'overwrite'"),
        ({"overwrite_schema": True}, "overwrite_schema needs mode 'overwrite'"),
        ({"overwrite_schema": True, "mode": WriteMode.ERROR}, "the mode is 'error'"),
        (OVERWRITE | {"overwrite_schema": True, "replace_where": "x = 1"}, "only a part of the rows"),
        (OVERWRITE | DYNAMIC | {"overwrite_schema": True}, "only a part of the rows"),
        ({"max_records_per_file": 0}, "max_records_per_file is 0"),
        ({"conflict_retries": -1}, "conflict_retries is -1"),
        ({"conflict_seconds": -1}, "conflict_seconds is -1"),
        ({"data_change": False}, "data_change=False"),
        ({"partition_by": ("day", "c", "DAY")}, "partition_by names .*day.* twice"),
        (OVERWRITE | {"identity": RunIdentity(app_id="x", on_rerun=OnRerun.REPLACE)}, "on_rerun='replace'"),
        ({"mode": "upsert"}, "mode is 'upsert'"),
        ({"mode": None}, "mode is None"),
        ({"partition_overwrite": "some"}, "partition_overwrite is 'some'"),
    ],
    ids=str,
)
def test_invalid_or_contradicting_parameters_are_rejected_with_a_remedy(change, problem):
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        WriteRequest(**PLAIN | change)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Source(format=""), "no format"),
        (lambda: Source(format="delta"), "no path"),
        (lambda: Source(format="Delta", path="/x", schema="a INT"), "takes its schema from the table"),
        (lambda: Source(format="delta", path="/x", schema="id INT"), "takes its schema from the table"),
        (lambda: Source(format="delta", path="/x", options={"a": "b"}), "the option 'a'"),
        (lambda: Source(format="delta", path="/x", options={"readRowIds": "yes"}), "'true' or 'false'"),
        (
            lambda: Source(format="delta", path="/x", options={"readRowIds": "true"}, changes_from_version=0),
            "readRowIds and a range of changes",
        ),
        (lambda: Source(format="delta", path="/x", version_as_of=1, timestamp_as_of="2026-01-01"), "names both"),
        (
            lambda: Source(format="csv", path="/x", version_as_of=0),
            "need format 'delta', but the format of this source is 'csv'",
        ),
        (lambda: Source(format="csv", path="/x", timestamp_as_of="2026-01-01"), "need format 'delta'"),
        (lambda: Source(format="csv", path="/x", options={"Quote": "''"}), "option 'quote' .* is \"''\""),
        (lambda: Source(format="CSV", path="/x", options={"escape": r"\\"}), "option 'escape'"),
        (lambda: Source(format="csv", path="/x", options={"comment": "--"}), "option 'comment'"),
        (lambda: Source(format="csv", path="/x", options={"charToEscapeQuoteEscaping": "ab"}), "option 'charToEscape"),
        (lambda: Source(format="csv", path="/x", options={"sep": ""}), "option 'sep' .* is ''"),
        (lambda: Source(format="csv", path="/x", options={"delimiter": "a\\"}), "option 'delimiter'"),
        (lambda: Source(format="csv", path="/x", options={"sep": r"\x01"}), "option 'sep'"),
        (lambda: Source(format="csv", path="/x", options={"lineSep": ""}), "option 'lineSep'"),
        (lambda: Source(format="csv", path="/x", options={"lineSep": "\r\n|"}), "option 'lineSep'"),
        (lambda: Source(format="csv", path="/x", changes_from_version=0), "need format 'delta'"),
        (
            lambda: Source(format="delta", path="/x", changes_from_version=0, version_as_of=0),
            "and a range of its changes",
        ),
        (lambda: Source(format="delta", path="/x", changes_to_version=0), "without changes_from_version"),
        (lambda: Source(format="delta", path="/x", changes_from_version=-1), "from version -1"),
        (lambda: Source(format="delta", path="/x", changes_from_version=2, changes_to_version=1), "version 2 to 1"),
        (lambda: RunIdentity(app_id=""), "empty app id"),
        (lambda: RunIdentity(app_id="x", txn_version=-1), "-1 is negative"),
        (lambda: RunIdentity(app_id="x", on_rerun="again"), "on_rerun is 'again'"),
    ],
)
def test_an_invalid_source_or_identity_is_rejected(make, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        make()


@pytest.mark.parametrize(
    "options",
    [{"sep": "||"}, {"sep": r"\t"}, {"sep": r"\\|"}, {"sep": "|", "delimiter": ""}, {"quote": "", "escape": ""},
     {"comment": "#"}, {"lineSep": "\r\n"}],
)  # fmt: skip
def test_csv_options_that_spark_accepts_are_accepted(options):
    assert Source(format="csv", path="/x", options=options).options == options


def changed_json(**changes):
    body = json.loads(WriteRequest(**FULL).to_json())
    return json.dumps({k: v for k, v in (body | changes).items() if v != "GONE"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "schema version None"),
        (changed_json(schema_version=2), "schema version 1, but got a request of kind 'write' and schema version 2"),
        (changed_json(kind="merge"), "got a request of kind 'merge'"),
        (changed_json(from_the_future=1, another=2), "unknown fields: another, from_the_future"),
        (changed_json(sources={"a": {"format": "csv", "novelty": 1}}), "malformed: .*novelty"),
        (changed_json(sources="GONE"), "malformed"),
        (changed_json(sources=[1]), "malformed"),
        (changed_json(table="GONE"), "malformed: .*table"),
        (changed_json(identity={"txn_version": 1}), "malformed: .*app_id"),
        (changed_json(identity={"app_id": ""}), "empty app id"),
        (changed_json(mode="upsert"), "mode is 'upsert'"),
        (changed_json(mode="append"), "replace_where needs mode"),
    ],
)
def test_json_of_another_release_or_of_another_program_is_rejected(text, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        WriteRequest.from_json(text)


def test_a_missing_json_key_has_its_default():
    assert WriteRequest.from_json(changed_json(identity="GONE", partition_by="GONE")) == replace(
        WriteRequest(**FULL), identity=None, partition_by=None
    )


RERUN = RunIdentity(app_id="ns/d", txn_version=1, on_rerun=OnRerun.WRITE, details={"try": 2})
COMMIT_OPTIONS = {"identity": RERUN, "user_metadata": "who", "conflict_retries": 0, "conflict_seconds": 5}
UPSERT = {
    "table": "/lake/t",
    "sources": {"source": CSV},
    "on": "target.id = source.id",
    "when_matched": (MergeClause(update="*"),),
}
EVERY_CLAUSE = {
    "sources": {"a": CSV, "b": DELTA},
    "query": "SELECT * FROM a JOIN b",
    "when_matched": (
        MergeClause(delete=True, condition="source.gone"),
        MergeClause(update={"a.b": "target.a.b + 1", "c": "'ü'"}, condition="source.n > 1"),
        MergeClause(update="*"),
    ),
    "when_not_matched": (MergeClause(insert={"id": "source.id"}, condition="source.x"), MergeClause(insert="*")),
    "when_not_matched_by_source": (
        MergeClause(update={"stale": "true"}, condition="target.day < DATE'2026-01-01'"),
        MergeClause(delete=True),
    ),
    "merge_schema": True,
}


@pytest.mark.parametrize(
    "request_",
    [
        DeleteRequest(table="/lake/t", confirm_all_rows=True),
        DeleteRequest(table="/lake/ü t", condition="id = 'ü'", single_writer=True, **COMMIT_OPTIONS),
        UpdateRequest(table="/lake/t", set={"a.b": "a.b + 1", "c": "NULL"}),
        UpdateRequest(table="/lake/t", set={"c": "'*'"}, condition="c IS NULL", **COMMIT_OPTIONS),
        MergeRequest(**UPSERT),
        MergeRequest(**UPSERT | EVERY_CLAUSE, **COMMIT_OPTIONS),
        MergeRequest(**UPSERT | {"when_matched": (), "when_not_matched": (MergeClause(insert="*"),)}),
    ],
    ids=lambda request: request.kind,
)
def test_json_of_a_delete_update_or_merge_parses_to_an_equal_request(request_):
    text = request_.to_json()
    assert "\n" not in text
    assert type(request_).from_json(text) == request_
    assert type(request_).from_json(text).to_json() == text


def test_json_of_one_request_class_is_rejected_by_the_others():
    with pytest.raises(InvalidRequestError, match=r"reads delete requests.* got a request of kind 'update'"):
        DeleteRequest.from_json(UpdateRequest(table="/t", set={"a": "1"}).to_json())


REPLACES = {"identity": RunIdentity(app_id="x", on_rerun=OnRerun.REPLACE)}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda **more: DeleteRequest(**{"table": "/t", "condition": "a = 1", **more}), "operation is 'delete'"),
        (lambda **more: UpdateRequest(**{"table": "/t", "set": {"a": "1"}, **more}), "operation is 'update'"),
        (lambda **more: MergeRequest(**UPSERT | more), "operation is 'merge'"),
    ],
)
def test_requests_that_change_rows_apply_the_checks_of_every_request(make, problem):
    for change, error_text in [
        (REPLACES, f"on_rerun='replace' applies only to an append of complete sources, but the {problem}"),
        ({"table": ""}, "names no table"),
        ({"conflict_retries": -1}, "conflict_retries is -1"),
        ({"conflict_seconds": -1}, "conflict_seconds is -1"),
    ]:
        with pytest.raises(InvalidRequestError, match=error_text) as caught:
            make(**change)
        assert caught.value.remedy


def update(**changes):
    """Return a function that makes an update request, as the parameter `make` of a test."""
    return lambda: UpdateRequest(**{"table": "/t", "set": {"a": "1"}} | changes)


def clause(**values):
    """Return a function that makes a merge clause."""
    return lambda: MergeClause(**values)


def merge(**changes):
    """Return a function that makes a merge request."""
    return lambda: MergeRequest(**UPSERT | {"when_matched": ()} | changes)


DELETE, UPDATE_ALL = MergeClause(delete=True), MergeClause(update="*")
CONDITIONAL_DELETE = MergeClause(delete=True, condition="x")
INSERT = MergeClause(insert="*")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: DeleteRequest(table="/t", condition=""), "condition is empty. .*to delete every row"),
        (lambda: DeleteRequest(table="/t", condition=" \n"), "condition is empty"),
        (
            lambda: DeleteRequest(table="/t"),
            "no condition, .* delete every row of /t. .*confirm_all_rows=True",
        ),
        (update(condition=" "), "condition is empty. .*to update every row"),
        (update(set={}), "set names no column"),
        (update(set={" ": "1"}), "set contains ' ': '1'"),
        (update(set={"a": ""}), "set contains 'a': ''"),
        (update(set={"a": "1", "A": "2"}), "set names a column twice, with different upper and lower case: a, A"),
        (clause(), "has no action"),
        (clause(condition="x"), "has no action"),
        (clause(update="*", delete=True), "has update and delete"),
        (clause(update={"a": "1"}, insert="*", delete=True), "has update and insert and delete"),
        (clause(update="a = 1"), "update is the text 'a = 1'. .*expressions by column"),
        (clause(insert=""), "insert is the text ''"),
        (clause(update={}), "update names no column"),
        (clause(insert={"a": " "}), "insert contains 'a': ' '"),
        (clause(insert={"a": "1", "A": "1"}), "insert names a column twice"),
        (clause(delete=True, condition=""), "condition is empty. .*for every row"),
        (merge(), "no clause, so it would do nothing"),
        (merge(when_matched=(DELETE,), on=" "), "`on` is empty"),
        (merge(when_matched=(DELETE,), sources={}), "no source"),
        (merge(when_matched=(DELETE,), sources={"a": CSV, "b": CSV}), "2 sources but no query"),
        (merge(when_matched=(DELETE,), query=" "), "`query` is empty"),
        (
            merge(when_matched=(CONDITIONAL_DELETE, INSERT)),
            r"when_matched\[1\] has the action insert, but only update or delete",
        ),
        (merge(when_not_matched=(DELETE,)), r"when_not_matched\[0\] has the action delete, but only insert"),
        (merge(when_not_matched=(UPDATE_ALL,)), r"when_not_matched\[0\] has the action update, but only insert"),
        (
            merge(when_not_matched_by_source=(INSERT,)),
            r"by_source\[0\] has the action insert, but only update or delete",
        ),
        (
            merge(when_not_matched_by_source=(CONDITIONAL_DELETE, UPDATE_ALL)),
            r"by_source\[1\] updates every column from the source",
        ),
        (
            merge(when_matched=(CONDITIONAL_DELETE, DELETE, UPDATE_ALL)),
            r"when_matched\[1\] has no condition and takes every row",
        ),
        (merge(when_not_matched=(INSERT, INSERT)), r"when_not_matched\[0\] has no condition"),
        (merge(when_not_matched_by_source=(DELETE, CONDITIONAL_DELETE)), r"by_source\[0\] has no condition"),
    ],
)
def test_a_request_that_is_invalid_for_every_table_is_rejected_with_a_remedy(make, problem):
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        make()
    assert caught.value.remedy


def merge_json(**changes):
    body = json.loads(MergeRequest(**UPSERT).to_json())
    return json.dumps({k: v for k, v in (body | changes).items() if v != "GONE"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (merge_json(on="GONE"), "malformed: .*'on'"),
        (merge_json(when_matched=[{"upsert": "*"}]), "malformed: .*'upsert'"),
        (merge_json(when_matched=["*"]), "malformed"),
        (merge_json(when_matched=[{"update": {"a": 1}}]), "malformed"),
        (merge_json(when_matched=[{"update": "*", "insert": "*"}]), "has update and insert"),
        (merge_json(when_matched="GONE"), "no clause"),
    ],
)
def test_invalid_json_of_a_merge_is_rejected(text, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        MergeRequest.from_json(text)
