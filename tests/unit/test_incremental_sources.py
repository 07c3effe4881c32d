"""Wrong parameters of incremental sources are errors in the constructors of the requests."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import MergeClause, MergeRequest, RunIdentity, Source, TableRequest, WriteRequest

DELTA = {"format": "delta", "path": "/s"}


def write_request(*sources, **options):
    named_sources = {f"s{number}": source for number, source in enumerate(sources)}
    return WriteRequest(table="/t", sources=named_sources, query="SELECT 1", **options)


def merge_request(*sources, **options):
    named_sources = {f"s{number}": source for number, source in enumerate(sources)}
    clauses = (MergeClause(insert="*"),)
    return MergeRequest(table="/t", sources=named_sources, query="q", on="true", when_not_matched=clauses, **options)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), ("True", "true"), ("f", "f"), (False, None), (None, None)])
def test_incremental_is_true_or_the_name_of_the_flow(value, text):
    assert Source(**DELTA, incremental=value).incremental == text


def test_a_request_with_an_incremental_source_survives_json():
    source = Source(**DELTA, incremental=True, read="changes", max_versions=3, max_bytes=4, on_gap="reload")
    request = write_request(source)
    assert WriteRequest.from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({**DELTA, "read": "changes"}, "has read without `incremental`"),
        ({**DELTA, "max_versions": 1}, "has max_versions without"),
        ({**DELTA, "incremental": False, "on_gap": "fail"}, "has on_gap without"),
        ({**DELTA, "incremental": " "}, "`incremental` is ' '"),
        ({**DELTA, "incremental": "a\nb"}, "`incremental` is"),
        ({"format": "csv", "path": "/s", "incremental": True}, "needs format 'delta'"),
        ({**DELTA, "incremental": True, "version_as_of": 3}, "`incremental` and version_as_of"),
        ({**DELTA, "incremental": True, "timestamp_as_of": "2026-01-01"}, "`incremental` and timestamp_as_of"),
        ({**DELTA, "incremental": True, "changes_from_version": 3}, "`incremental` and changes_from_version"),
        ({**DELTA, "incremental": True, "options": {"readRowIds": "true"}}, "option readRowIds"),
        ({**DELTA, "incremental": True, "read": "rows"}, "Choose one of appends, changes"),
        ({**DELTA, "incremental": True, "on_gap": "skip"}, "Choose one of fail, reload"),
        ({**DELTA, "incremental": True, "on_change": "reload"}, "Choose one of fail, skip"),
        ({**DELTA, "incremental": True, "max_versions": 0}, "max_versions is 0"),
        ({**DELTA, "incremental": True, "max_bytes": -1}, "max_bytes is -1"),
        ({**DELTA, "incremental": True, "read": "changes", "on_change": "skip"}, "on_change needs read='appends'"),
    ],
)
def test_a_source_with_parameters_that_contradict_each_other_is_refused(parameters, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        Source(**parameters)


@pytest.mark.parametrize("make_request", [write_request, merge_request])
def test_two_sources_cannot_share_a_flow(make_request):
    by_name = Source(**DELTA, incremental="f"), Source(format="delta", path="/other", incremental="f")
    by_address = Source(**DELTA, incremental=True), Source(**DELTA, incremental=True)
    for sources in (by_name, by_address):
        with pytest.raises(InvalidRequestError, match="have the same flow"):
            make_request(*sources)
    make_request(Source(**DELTA, incremental="f"), Source(**DELTA, incremental="g"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mode": "overwrite"}, "needs mode 'append' or 'error', and the mode is 'overwrite'"),
        ({"mode": "overwrite", "replace_where": "id > 1"}, "needs mode 'append' or 'error'"),
        ({"mode": "ignore"}, "needs mode 'append' or 'error', and the mode is 'ignore'"),
        ({"identity": RunIdentity(app_id="run", on_rerun="replace")}, "on_rerun='replace' applies only to an append"),
        (
            {"properties": {"delta.setTransactionRetentionDuration": "interval 1 day"}},
            "lets the offsets of incremental sources expire",
        ),
    ],
)
def test_a_write_that_cannot_keep_an_offset_is_refused(options, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        write_request(Source(**DELTA, incremental=True), **options)


@pytest.mark.parametrize("mode", ["append", "error"])
def test_a_write_that_keeps_the_earlier_rows_can_keep_an_offset(mode):
    assert write_request(Source(**DELTA, incremental=True), mode=mode).mode == mode


def test_a_reset_needs_a_version_of_0_or_more():
    assert TableRequest(table="/t", reset_flows={"f": None, "g": 0}).reset_flows == {"f": None, "g": 0}
    with pytest.raises(InvalidRequestError, match="sets the flow 'f' to -1"):
        TableRequest(table="/t", reset_flows={"f": -1})
    for version in (2.0, True, "2"):
        with pytest.raises(InvalidRequestError, match=r"sets the flow 'f' to .*\. Give an integer"):
            TableRequest(table="/t", reset_flows={"f": version})
