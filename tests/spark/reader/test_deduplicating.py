"""`deduplicate` keeps one source row for each key, and refuses a choice that depends on the order of reading."""

from __future__ import annotations

import pytest

from deltalite.errors import AmbiguousRowsError, InvalidRequestError
from deltalite.requests import Deduplicate, Source
from tests.support.merging import merge_into
from tests.support.tables import folder_content, rows, values, write_rows

pytestmark = pytest.mark.spark

CHANGES = ("1, 'a', 1", "1, 'b', 2", "1, 'b', 2", "2, 'c', NULL", "2, 'd', 1", "NULL, 'e', 1", "NULL, 'f', 2")
LAST = Deduplicate(keys=("ID",), order_by="source.seq")


def test_a_write_keeps_the_first_or_the_last_row_of_each_key(spark, tmp_path):
    query = values("id, name, seq", *CHANGES)
    write_rows(spark, tmp_path / "last", query, deduplicate=LAST)
    assert rows(tmp_path / "last") == [(1, "b", 2), (2, "d", 1), (None, "f", 2)]
    first = Deduplicate(keys=("id",), keep="first", order_by=("seq", "name"))
    write_rows(spark, tmp_path / "first", query, deduplicate=first)
    assert rows(tmp_path / "first") == [(1, "a", 1), (2, "c", None), (None, "e", 1)]


def test_equal_rows_need_no_order_even_if_they_have_maps(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"id": 1, "m": {"x": 1, "y": 2}}\n{"id": 1, "m": {"y": 2, "x": 1}}\n')
    source = {"source": Source(format="json", path=str(tmp_path / "in"), schema="id INT, m MAP<STRING, INT>")}
    write_rows(spark, tmp_path / "t", sources=source, deduplicate=Deduplicate(keys=("id",)))
    assert [(key, dict(entries)) for key, entries in rows(tmp_path / "t")] == [(1, {"x": 1, "y": 2})]


def test_a_merge_takes_one_row_of_each_key_when_it_creates_or_changes_the_table(spark, tmp_path):
    table, query = tmp_path / "t", values("id, name, seq", *CHANGES)
    upsert = {"matched": [{"update": "*"}], "inserts": [{"insert": "*", "condition": "id IS NOT NULL"}]}
    for run in ("creates", "merges"):
        result = merge_into(
            spark, table, query, "target.id = source.id", run=run, deduplicate=LAST, create_if_missing=True, **upsert
        )
        assert (result.operation, rows(table)) == ("MERGE", [(1, "b", 2), (2, "d", 1)])
    assert result.metrics["numSourceRows"] == 3


@pytest.mark.parametrize(
    ("rule", "error", "problem"),
    [
        (
            Deduplicate(keys=("id",), order_by="seq % 1"),
            AmbiguousRowsError,
            r"the key \{\"id\":.* differ, and have equal",
        ),
        (Deduplicate(keys=("id",)), AmbiguousRowsError, r"the key \{\"id\":.* differ, and there is no order_by"),
        (Deduplicate(keys=("key",)), InvalidRequestError, "'key', which is not a column of the source"),
        (
            Deduplicate(keys=("id",), order_by="seq DESC"),
            InvalidRequestError,
            r"\(seq DESC\), which cannot be computed",
        ),
        (Deduplicate(keys=("id",), order_by="rand()"), InvalidRequestError, "not deterministic"),
    ],
)
def test_an_ambiguous_or_invalid_rule_is_refused_and_nothing_is_written(spark, tmp_path, rule, error, problem):
    write_rows(spark, tmp_path / "t", values("id, name, seq", "1, 'a', 1"))
    content = folder_content(tmp_path / "t")
    with pytest.raises(error, match=problem):
        write_rows(spark, tmp_path / "t", values("id, name, seq", *CHANGES), deduplicate=rule)
    assert folder_content(tmp_path / "t") == content
