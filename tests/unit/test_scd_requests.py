"""The request of an SCD task: its faults, its JSON form, and the merge that it stands for."""

from __future__ import annotations

import pytest

from deltalite.commands.scd.requests import (
    check_same_history,
    first_write_request,
    merge_request_of,
    operation_parameters,
    with_order_policy,
)
from deltalite.errors import InvalidRequestError
from deltalite.requests import Deduplicate, OnRerun, OutOfOrder, RunIdentity, ScdRequest, Source

PLAIN = {
    "table": "/lake/t",
    "sources": {"source": Source(format="csv", path="/in")},
    "keys": ("id", "p q"),
    "sequence_by": "changed_at",
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "scd_type": 1,
            "delete_when": "op = 'D'",
            "exclude": ("op",),
            "on_same_sequence": "replace",
            "deduplicate": Deduplicate(keys=("id",), order_by="changed_at"),
            "partition_by": ("p q",),
            "identity": RunIdentity(app_id="x", on_rerun=OnRerun.WRITE),
        },
        {"track": (), "valid_from": "dbt_valid_from", "valid_to": "dbt_valid_to", "out_of_order": "fail"},
    ],
)
def test_json_of_a_request_parses_to_an_equal_request(more):
    request = ScdRequest(**PLAIN | more)
    assert ScdRequest.from_json(request.to_json(nonce="n")) == request


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"keys": ()}, "has no keys"),
        ({"keys": ("id", "ID")}, "keys names 'id' twice"),
        ({"keys": ("",)}, "keys has an empty text"),
        ({"sequence_by": " "}, "sequence_by is empty"),
        ({"delete_when": ""}, "delete_when is empty"),
        ({"scd_type": 3}, "scd_type is 3"),
        ({"scd_type": 1, "track": ("a",)}, "track needs scd_type=2"),
        ({"track": ("ID",)}, "'id' is in keys and in track"),
        ({"exclude": ("id",)}, "'id' is in keys and in exclude"),
        ({"track": ("a",), "exclude": ("A",)}, "'a' is in track and in exclude"),
        ({"valid_to": "valid_from"}, "The added columns are"),
        ({"current": " "}, "The added columns are"),
        ({"valid_from": "ID"}, "'id' is in keys, and is a column that the operation adds"),
        ({"on_same_sequence": "ignore"}, "on_same_sequence is 'ignore'"),
        ({"sources": {}}, "no source"),
        ({"identity": RunIdentity(app_id="x", on_rerun=OnRerun.REPLACE)}, "operation is 'scd'"),
    ],
)
def test_an_invalid_request_is_refused(more, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        ScdRequest(**PLAIN | more)


def test_the_request_stands_for_a_merge_and_a_first_write():
    request = ScdRequest(**PLAIN, delete_when="op = 'D'", merge_schema=True, conflict_retries=7, user_metadata="why")
    merge = merge_request_of(request)
    keys = "target.`id` = source.`id` AND target.`p q` = source.`p q`"
    assert merge.on == f"{keys} AND target.`valid_from` = source.`valid_from`"
    assert (merge.merge_schema, merge.conflict_retries, merge.user_metadata) == (True, 7, "why")
    assert merge_request_of(ScdRequest(**PLAIN, scd_type=1)).on == keys
    assert (request.operation, first_write_request(request).mode) == ("MERGE", "error")
    assert operation_parameters(request) == {
        "scdType": "2",
        "keys": '["id", "p q"]',
        "sequenceBy": "changed_at",
        "deleteWhen": "op = 'D'",
    }


def test_runs_may_have_any_order_by_default_if_no_row_replaces_another():
    assert with_order_policy(ScdRequest(**PLAIN)).out_of_order is OutOfOrder.ALLOW
    assert with_order_policy(ScdRequest(**PLAIN, on_same_sequence="replace")).out_of_order is None
    assert with_order_policy(ScdRequest(**PLAIN, out_of_order="fail")).out_of_order is OutOfOrder.FAIL


def test_a_run_with_other_keys_or_another_type_than_the_first_run_is_refused():
    request = ScdRequest(**PLAIN)
    configuration = first_write_request(request).properties
    check_same_history(ScdRequest(**PLAIN | {"keys": ("P Q", "ID")}), configuration)
    check_same_history(ScdRequest(**PLAIN, scd_type=1), {})
    for other in ({"keys": ("id",)}, {"scd_type": 1}):
        with pytest.raises(InvalidRequestError, match="other keys or another scd_type: its property"):
            check_same_history(ScdRequest(**PLAIN | other), configuration)
