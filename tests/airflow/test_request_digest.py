"""The digest of a request: equal where the rows are, and without secrets."""

import hashlib
import json
from dataclasses import replace

import pytest

from airflow_provider_deltalite.request_digest import request_digests
from deltalite.requests import (
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
    ],
)
def test_what_does_not_decide_the_rows_does_not_change_the_digest(changes):
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
def test_each_parameter_that_decides_the_rows_changes_the_digest_and_its_own(changes):
    ours, other = request_digests(WRITE), request_digests(replace(WRITE, **changes))
    assert ours.digest != other.digest
    differing = ours.parameters.items() ^ other.parameters.items()
    assert {name for name, _ in differing} == set(changes)


def test_the_value_of_a_secret_option_is_no_part_of_the_digest():
    changed = {**JDBC.options, "password": "other-one", "url": "jdbc:x?password=other-one"}
    assert request_digests(replace(WRITE, sources={"source": replace(JDBC, options=changed)})) == request_digests(WRITE)
    elsewhere = {**changed, "url": "jdbc:y?password=other-one"}
    assert request_digests(replace(WRITE, sources={"source": replace(JDBC, options=elsewhere)})) != request_digests(
        WRITE
    )


def test_sql_that_looks_like_a_secret_is_part_of_the_digest():
    one, other = (DeleteRequest(table="/t", condition=f"token='{value}'") for value in ("aaaaaaa", "bbbbbbb"))
    assert request_digests(one) != request_digests(other)


def _write(**changes):
    return replace(WRITE, **changes)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        [UpdateRequest(table="/t", set={"token": value}) for value in ("1", "2")],
        [_write(sources={"password_resets": Source(format="csv", path=path)}) for path in ("/a", "/b")],
        [_write(sources={"s": Source(format="csv", path=f"/token={value}/x")}) for value in ("first", "other")],
        [_write(query_params={"token": value}) for value in (1, 2)],
    ],
)
def test_names_that_look_like_secrets_hide_no_difference_in_rows(one, other):
    assert request_digests(one) != request_digests(other)


def test_fields_of_sources_and_clauses_that_have_their_default_are_left_out():
    source = Source(format="csv", path="/a")
    merge = MergeRequest(table="/t", sources={"s": source}, on="true", when_matched=(MergeClause(delete=True),))
    decisive = {"on": "true", "sources": {"s": {"format": "csv", "path": "/a"}}, "when_matched": [{"delete": True}]}
    digest = hashlib.sha256(json.dumps(["merge", decisive], sort_keys=True).encode()).hexdigest()
    assert request_digests(merge).digest == f"1:{digest[:32]}"


def test_how_a_missing_table_is_made_is_no_part_of_the_digest_of_a_merge():
    merge = MergeRequest(table="/t", sources={"s": JDBC}, on="true", when_not_matched=(MergeClause(insert="*"),))
    making = replace(merge, create_if_missing=True, partition_by=("day",), properties={"a": "b"})
    assert request_digests(making) == request_digests(merge)


def test_a_parameter_with_its_default_is_left_out_so_that_new_ones_change_no_digest():
    assert set(request_digests(WRITE).parameters) == {"sources", "query"}


def test_requests_of_different_operations_differ():
    texts = {"table": "/t", "condition": "id = 1"}
    assert request_digests(DeleteRequest(**texts)) != request_digests(UpdateRequest(**texts, set={"id": "2"}))


def test_the_clauses_of_a_merge_are_part_of_the_digest():
    merge = MergeRequest(
        table="/t", sources={"source": JDBC}, on="source.id = target.id", when_matched=(MergeClause(delete=True),)
    )
    other = replace(merge, when_matched=(MergeClause(update="*"),))
    assert request_digests(merge).digest != request_digests(other).digest
    assert request_digests(merge).digest.startswith("1:")
