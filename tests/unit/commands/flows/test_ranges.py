"""The versions that a run loads depend on the offset in the target, and on the versions that the source still has."""

from __future__ import annotations

import pytest

from deltalite.commands.flows.ranges import SourceState, check_keeps_offsets, choose_range, last_version_within
from deltalite.errors import InvalidRequestError, SourceGapError
from deltalite.requests import Source
from deltalite.txn.flows import FlowId
from tests.unit.builders import txn

RELOAD = {"on_gap": "reload"}


def chosen(offset=None, *, newest=5, oldest=0, loaded_id="id", **options):
    """The bounds of the range: the version before the first version, and the last version."""
    state = SourceState(address="/s", table_id="id", newest_version=newest, commits=range(oldest, newest + 1))
    flow_txn = txn(FlowId(name="f", source_table_id=loaded_id).app_id, offset or 0)
    another_txn = txn(FlowId(name="another", source_table_id="id").app_id, 77)
    all_txns = [another_txn] if offset is None else [another_txn, flow_txn]
    transactions = {transaction.app_id: transaction for transaction in all_txns}
    source = Source(format="delta", path="/s", incremental="f", **options)
    flow_range = choose_range("f", source, state, transactions)
    assert (flow_range.flow, flow_range.source_table_id) == ("f", "id")
    return flow_range.after_version, flow_range.to_version


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"offset": None}, (None, 5)),
        ({"offset": -1}, (None, 5)),
        ({"offset": -1, "loaded_id": "another id"}, (None, 5)),
        ({"offset": None, "oldest": 4, "max_versions": 1}, (None, 5)),
        ({"offset": 0}, (0, 5)),
        ({"offset": 0, "oldest": 1}, (0, 5)),
        ({"offset": 5}, (5, 5)),
        ({"offset": 5, "oldest": 6}, (5, 5)),
        ({"offset": 2, "max_versions": 2}, (2, 4)),
        ({"offset": 2, "max_versions": 9}, (2, 5)),
        ({"offset": 0, "oldest": 2, **RELOAD}, (None, 5)),
        ({"offset": 6, **RELOAD}, (None, 5)),
        ({"offset": 3, "loaded_id": "another id", **RELOAD}, (None, 5)),
        ({"offset": 3, **RELOAD}, (3, 5)),
    ],
)
def test_the_range_begins_after_the_offset(arguments, expected):
    assert chosen(**arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "problem", "can_reset"),
    [
        ({"offset": 0, "oldest": 2}, r"'f' has loaded /s up to version 0, .*holds version 1\. .* version is 2\.", True),
        ({"offset": 6}, r"'f' has loaded /s up to version 6, .*newest version of the source is 5\.", True),
        (
            {"offset": 3, "loaded_id": "x"},
            r"another table up to version 3, and cannot continue with /s: the source was",
            False,
        ),
    ],
)
def test_a_gap_is_an_error_that_names_the_flow_the_offset_and_the_remedies(arguments, problem, can_reset):
    with pytest.raises(SourceGapError, match=problem) as caught:
        chosen(**arguments)
    assert "on_gap='reload'" in caught.value.remedy
    assert ("reset_flows" in caught.value.remedy) is can_reset


def test_a_missing_commit_in_the_middle_is_a_gap():
    state = SourceState(address="/s", table_id="id", newest_version=5, commits={1, 2, 4, 5})
    offset = txn(FlowId(name="f", source_table_id="id").app_id, 0)
    source = Source(format="delta", path="/s", incremental="f")
    with pytest.raises(SourceGapError, match=r"no longer holds version 3\. The earliest available version is 4"):
        choose_range("f", source, state, {offset.app_id: offset})


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "last"),
    [([10, 10, 10], 20, 2), ([10, 10, 10], 19, 1), ([50, 1], 20, 1), ([0, 0, 50, 0], 20, 2), ([1], 20, 1)],
)
def test_max_bytes_takes_the_versions_that_fit_and_at_least_one(sizes, max_bytes, last):
    assert last_version_within(1, sizes, max_bytes) == last


def test_a_target_whose_transactions_expire_is_refused():
    check_keeps_offsets({"delta.appendOnly": "true"}, table="t")
    with pytest.raises(InvalidRequestError, match="unset_properties"):
        check_keeps_offsets({"delta.setTransactionRetentionDuration": "interval 1 day"}, table="t")
