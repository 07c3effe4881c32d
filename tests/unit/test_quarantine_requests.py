"""An audit of level `quarantine` is refused when a DAG is parsed, if the operation cannot leave its rows out."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import (
    Audit,
    CheckRequest,
    CopyRequest,
    Deduplicate,
    DeleteRequest,
    MergeClause,
    MergeRequest,
    ScdRequest,
    Source,
    UpdateRequest,
    WriteRequest,
)

SOURCES = {"source": Source(format="delta", path="/raw")}
REJECTING = (Audit(name="a", rows="x IS NULL", level="quarantine"),)
FAILING = (Audit(name="a", rows="x IS NULL"),)


def write(**fields):
    return WriteRequest(**{"table": "/t", "sources": SOURCES, "audits": REJECTING, "quarantine": "/q", **fields})


def copy(file_format="csv", **fields):
    source = Source(format=file_format, path="/in")
    return CopyRequest(**{"table": "/t", "source": source, "audits": REJECTING, "quarantine": "/q", **fields})


def merge(**fields):
    inserts = (MergeClause(insert="*"),)
    return MergeRequest(
        **{"table": "/t", "sources": SOURCES, "on": "x", "when_not_matched": inserts, "audits": REJECTING,
           "quarantine": "/q", **fields}
    )  # fmt: skip


def scd(**fields):
    return ScdRequest(
        **{"table": "/t", "sources": SOURCES, "keys": ("x",), "sequence_by": "y", "audits": REJECTING,
           "quarantine": "/q", **fields}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("audit", "problem"),
    [
        ({"unique": ("id",)}, "level 'quarantine', and unique does not tell good rows from bad ones"),
        ({"row_count": True, "min": 1}, "and row_count does not tell"),
        ({"rows": "x", "on": "table"}, "leaves out new rows, but on is 'table'"),
        ({"rows": " "}, "is empty"),
        ({"rows": "x", "min": 1}, "the key min"),
    ],
)
def test_only_an_audit_of_new_rows_can_reject_rows(audit, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        Audit(name="a", level="quarantine", **audit)


def test_an_audit_without_a_limit_rejects_at_most_half_of_the_rows():
    assert (REJECTING[0].share_limit, REJECTING[0].threshold) == (0.5, "max_share=0.5")
    assert Audit(name="a", rows="x", level="quarantine", max_rows=3).threshold == "max_rows=3"
    assert FAILING[0].threshold == "max_rows=0"


@pytest.mark.parametrize(
    ("make_request", "problem", "remedy"),
    [
        (
            lambda: write(quarantine=None),
            "'a' has the level 'quarantine', and the request has no quarantine",
            "Give `q",
        ),
        (lambda: write(audits=FAILING), "the request has no such audit", "leave quarantine out"),
        (lambda: write(quarantine=" "), "quarantine is empty", "Give the address"),
        (lambda: write(quarantine="/t/"), "is the table itself", "another table"),
        (lambda: write(quarantine="/raw"), "is the source 'source'", "another table"),
        (lambda: write(mode="overwrite", data_change=False), "promises that no row is lost", "leave data_change out"),
        (
            lambda: write(deduplicate=Deduplicate(keys=("id",), order_by="at")),
            "it could keep a bad row and drop a good one",
            "Filter the bad rows in `query`",
        ),
        (lambda: copy(quarantine=None), "the request has no quarantine", "level='fail'"),
        (
            lambda: CheckRequest(table="/t", audits=REJECTING),
            "but a check changes no row",
            "Set level='fail' or 'warn'.",
        ),
        (
            lambda: DeleteRequest(table="/t", condition="x", audits=REJECTING),
            "but a delete adds no rows",
            "Set level='fail'.",
        ),
        (
            lambda: UpdateRequest(table="/t", set={"x": "1"}, audits=REJECTING),
            "'update' cannot leave out rows",
            "leave out bad rows with `condition`",
        ),
        (lambda: merge(quarantine=None), "the request has no quarantine", "level='fail'"),
        (lambda: merge(audits=FAILING), "the request has no such audit", "leave quarantine out"),
        (lambda: merge(quarantine="/raw"), "is the source 'source'", "another table"),
        (
            lambda: merge(when_not_matched_by_source=(MergeClause(delete=True),)),
            "a bad source row would change or delete a good target row",
            "Set level='fail', or leave when_not_matched_by_source out.",
        ),
        (lambda: scd(quarantine=None), "the request has no quarantine", "level='fail'"),
        (lambda: scd(quarantine="/t/"), "is the table itself", "another table"),
        (lambda: scd(audits=()), "the request has no such audit", "leave quarantine out"),
    ],
)
def test_a_request_that_cannot_quarantine_is_refused(make_request, problem, remedy):
    with pytest.raises(InvalidRequestError) as error:
        make_request()
    assert problem in error.value.problem
    assert remedy in error.value.remedy


def test_a_valid_request_keeps_its_quarantine_in_json():
    one_of_each_key = Deduplicate(keys=("id",), order_by="at")
    for request in (
        write(), copy(), copy("parquet"), copy("parquet", max_bad_share=0.1),
        copy(audits=FAILING), merge(deduplicate=one_of_each_key),
        merge(quarantine=None, audits=FAILING, when_not_matched_by_source=(MergeClause(delete=True),)),
        scd(deduplicate=one_of_each_key),
    ):  # fmt: skip
        assert type(request).from_json(request.to_json()) == request
