"""The parameter `deduplicate` of a request: its faults, and its JSON form."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import Deduplicate, Source, WriteRequest


@pytest.mark.parametrize("order_by", [(), "changed_at", ("day", "changed_at")])
def test_a_rule_survives_the_json_of_its_request(order_by):
    rule = Deduplicate(keys=("id", "day"), order_by=order_by)
    request = WriteRequest(table="/t", sources={"source": Source(format="csv")}, deduplicate=rule)
    assert WriteRequest.from_json(request.to_json()) == request
    assert request.deduplicate.order_texts == ((order_by,) if isinstance(order_by, str) else order_by)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"keys": ()}, "has no keys"),
        ({"keys": ("id", "ID")}, "key 'id' twice"),
        ({"keys": (" ",)}, "empty text in keys"),
        ({"keys": ("id",), "order_by": ""}, "empty text in order_by"),
        ({"keys": ("id",), "keep": "any"}, "keep is 'any'"),
        ({"keys": ("id",), "keep": "first"}, "keep='first' without order_by"),
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(values, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        Deduplicate(**values)
