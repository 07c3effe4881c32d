"""The digest of a request, and the short digests of its parameters.

Requests for the same rows have the same digest, which depends on no secret.
"""

import hashlib
import json
from dataclasses import replace

import pytest

from airflow_provider_deltalite.request_digest import request_digests
from deltalite.requests import (
    Audit,
    DeleteRequest,
    MergeClause,
    MergeRequest,
    RunIdentity,
    Source,
    UpdateRequest,
    WriteRequest,
)

JDBC = Source(format="jdbc", options={"dbtable": "orders", "password": "hunter22", "url": "jdbc:x?password=hunter22"})
WRITE = WriteRequest(table="/lake/t", sources={"source": JDBC}, query="SELECT 1")


@pytest.mark.parametrize(
    "changes",
    [
        {"table": "file:///lake/t"},
        {"user_metadata": "why"},
        {"conflict_retries": 9, "conflict_seconds": 9, "single_writer": True},
        {"identity": RunIdentity(app_id="x")},
        {"out_of_order": "allow", "confirm_all_rows": True},
        {"max_records_per_file": 5, "optimize_write": True, "properties": {"a": "b"}},
        {"audits": (Audit(name="a", rows="x < 0"),)},
    ],
)
def test_a_parameter_that_does_not_decide_the_rows_keeps_the_digest(changes):
    assert request_digests(replace(WRITE, **changes)) == request_digests(WRITE)


@pytest.mark.parametrize(
    "changes",
    [
        {"query": "SELECT 2"},
        {"mode": "overwrite"},
        {"sources": {"source": replace(JDBC, path="/b")}},
        {"sources": {"other": JDBC}},
        {"query_params": {"day": "2026-01-01"}},
        {"partition_by": ("day",)},
        {"merge_schema": True},
    ],
)
def test_each_parameter_that_decides_the_rows_changes_its_digest_and_the_digest_of_the_request(changes):
    digests, changed_digests = request_digests(WRITE), request_digests(replace(WRITE, **changes))
    assert digests.digest != changed_digests.digest
    differing_items = digests.parameters.items() ^ changed_digests.parameters.items()
    assert {name for name, _ in differing_items} == set(changes)


def test_an_audit_decides_the_rows_if_it_leaves_rows_out():
    rejecting = Audit(name="a", rows="x < 0", level="quarantine")
    rejecting_above_limit = Audit(name="b", rows="x < 0", level="quarantine", max_share=1)
    failing = Audit(name="c", rows="y < 0")
    digests = [
        request_digests(changed_write(quarantine="/q", audits=audits))
        for audits in ((rejecting,), (rejecting_above_limit, failing), (replace(rejecting, rows="x < 1"),))
    ]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0].parameters["audits"] != digests[2].parameters["audits"]


def test_the_value_of_a_secret_option_is_not_in_the_digest():
    options_with_other_password = {**JDBC.options, "password": "other-one", "url": "jdbc:x?password=other-one"}
    request = changed_write(sources={"source": replace(JDBC, options=options_with_other_password)})
    assert request_digests(request) == request_digests(WRITE)
    options_with_other_database = {**options_with_other_password, "url": "jdbc:y?password=other-one"}
    request = changed_write(sources={"source": replace(JDBC, options=options_with_other_database)})
    assert request_digests(request) != request_digests(WRITE)


def test_sql_that_looks_like_a_secret_is_in_the_digest():
    first_request, second_request = (
        DeleteRequest(table="/t", condition=f"token='{value}'") for value in ("aaaaaaa", "bbbbbbb")
    )
    assert request_digests(first_request) != request_digests(second_request)


def changed_write(**changes):
    """The request `WRITE` with these changes."""
    return replace(WRITE, **changes)


@pytest.mark.parametrize(
    ("first_request", "second_request"),
    [
        [UpdateRequest(table="/t", set={"token": value}) for value in ("1", "2")],
        [changed_write(sources={"password_resets": Source(format="csv", path=path)}) for path in ("/a", "/b")],
        [changed_write(sources={"s": Source(format="csv", path=f"/token={value}/x")}) for value in ("first", "other")],
        [changed_write(query_params={"token": value}) for value in (1, 2)],
    ],
)
def test_a_name_that_looks_like_a_secret_does_not_hide_a_difference_in_rows(first_request, second_request):
    assert request_digests(first_request) != request_digests(second_request)


def test_default_values_in_sources_and_clauses_are_not_in_the_digest():
    source = Source(format="csv", path="/a")
    merge = MergeRequest(table="/t", sources={"s": source}, on="true", when_matched=(MergeClause(delete=True),))
    parameters = {"on": "true", "sources": {"s": {"format": "csv", "path": "/a"}}, "when_matched": [{"delete": True}]}
    digest = hashlib.sha256(json.dumps(["merge", parameters], sort_keys=True).encode()).hexdigest()
    assert request_digests(merge).digest == f"1:{digest[:32]}"


def test_parameters_of_a_new_table_are_not_in_the_digest_of_a_merge():
    merge = MergeRequest(table="/t", sources={"s": JDBC}, on="true", when_not_matched=(MergeClause(insert="*"),))
    creating_merge = replace(merge, create_if_missing=True, partition_by=("day",), properties={"a": "b"})
    assert request_digests(creating_merge) == request_digests(merge)


def test_default_values_are_not_in_the_digest_so_new_parameters_change_no_digest():
    assert set(request_digests(WRITE).parameters) == {"sources", "query"}


def test_different_operations_have_different_digests():
    common = {"table": "/t", "condition": "id = 1"}
    assert request_digests(DeleteRequest(**common)) != request_digests(UpdateRequest(**common, set={"id": "2"}))


def test_the_clauses_of_a_merge_are_in_the_digest():
    merge = MergeRequest(
        table="/t", sources={"source": JDBC}, on="source.id = target.id", when_matched=(MergeClause(delete=True),)
    )
    update_merge = replace(merge, when_matched=(MergeClause(update="*"),))
    assert request_digests(merge).digest != request_digests(update_merge).digest
    assert request_digests(merge).digest.startswith("1:")
