"""A request that exists makes sense in itself, and means the same on both sides of spark-submit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, PartitionOverwrite, RunIdentity, Source, WriteMode, WriteRequest

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
def test_a_request_comes_back_from_its_json_equal(values):
    request = WriteRequest(**values)
    text = request.to_json()
    assert "\n" not in text
    assert WriteRequest.from_json(text) == request
    assert WriteRequest.from_json(text).to_json() == text


def test_choices_may_be_given_as_text():
    request = WriteRequest(**PLAIN, mode="overwrite", partition_overwrite="dynamic")
    assert (request.mode, request.partition_overwrite) == (WriteMode.OVERWRITE, PartitionOverwrite.DYNAMIC)
    assert RunIdentity(app_id="x", on_rerun="write").on_rerun is OnRerun.WRITE


OVERWRITE = {"mode": WriteMode.OVERWRITE}
DYNAMIC = {"partition_overwrite": PartitionOverwrite.DYNAMIC}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"table": ""}, "names no table"),
        ({"sources": {}}, "no source"),
        ({"sources": {"a": CSV, "b": CSV}}, "2 sources and no query"),
        ({"query": "  "}, "`query` is empty"),
        ({"replace_where": "day = 1"}, "replace_where needs mode 'overwrite', and the mode is 'append'"),
        (OVERWRITE | {"replace_where": " "}, "replace_where is empty"),
        (OVERWRITE | DYNAMIC | {"replace_where": "x = 1"}, "both say what is replaced"),
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
def test_a_contradiction_is_refused_with_a_remedy(change, says):
    with pytest.raises(InvalidRequestError, match=says) as caught:
        WriteRequest(**PLAIN | change)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Source(format=""), "no format"),
        (lambda: Source(format="delta"), "no path"),
        (lambda: Source(format="Delta", path="/x", schema="a INT"), "takes its schema from the table"),
        (lambda: Source(format="delta", path="/x", options={"a": "b"}), "no reader options"),
        (lambda: Source(format="delta", path="/x", version_as_of=1, timestamp_as_of="2026-01-01"), "names both"),
        (lambda: Source(format="csv", path="/x", version_as_of=0), "need format 'delta', and this source has 'csv'"),
        (lambda: Source(format="csv", path="/x", timestamp_as_of="2026-01-01"), "need format 'delta'"),
        (lambda: Source(format="csv", path="/x", changes_from_version=0), "need format 'delta'"),
        (lambda: Source(format="delta", path="/x", changes_from_version=0, version_as_of=0), "and for its changes"),
        (lambda: Source(format="delta", path="/x", changes_to_version=0), "without changes_from_version"),
        (lambda: Source(format="delta", path="/x", changes_from_version=-1), "from version -1"),
        (lambda: Source(format="delta", path="/x", changes_from_version=2, changes_to_version=1), "version 2 to 1"),
        (lambda: RunIdentity(app_id=""), "empty app id"),
        (lambda: RunIdentity(app_id="x", txn_version=-1), "-1 is negative"),
        (lambda: RunIdentity(app_id="x", on_rerun="again"), "on_rerun is 'again'"),
    ],
)
def test_a_source_or_an_identity_that_makes_no_sense_is_refused(make, says):
    with pytest.raises(InvalidRequestError, match=says):
        make()


def edited(**changes):
    body = json.loads(WriteRequest(**FULL).to_json())
    return json.dumps({k: v for k, v in (body | changes).items() if v != "GONE"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "of version None"),
        (edited(schema_version=2), "schema version 1, and got 'write' of version 2"),
        (edited(kind="merge"), "got 'merge'"),
        (edited(from_the_future=1, another=2), "unknown fields: another, from_the_future"),
        (edited(sources={"a": {"format": "csv", "novelty": 1}}), "malformed: .*novelty"),
        (edited(sources="GONE"), "malformed"),
        (edited(sources=[1]), "malformed"),
        (edited(table="GONE"), "malformed: .*table"),
        (edited(identity={"txn_version": 1}), "malformed: .*app_id"),
        (edited(identity={"app_id": ""}), "empty app id"),
        (edited(mode="upsert"), "mode is 'upsert'"),
        (edited(mode="append"), "replace_where needs mode"),
    ],
)
def test_json_of_another_release_or_none_of_ours_is_refused(text, says):
    with pytest.raises(InvalidRequestError, match=says):
        WriteRequest.from_json(text)


def test_what_json_leaves_out_has_its_default():
    assert WriteRequest.from_json(edited(identity="GONE", partition_by="GONE")) == replace(
        WriteRequest(**FULL), identity=None, partition_by=None
    )
