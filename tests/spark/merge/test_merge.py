"""MERGE applies each clause to the rows that it covers, for every kind of table and ON condition."""

from __future__ import annotations

import shutil

import pytest

from deltalite.errors import MultipleMatchesError
from deltalite.requests import Source
from tests.support.merging import feed, merge_into
from tests.support.properties import FEED, VECTORS
from tests.support.selection import sample_every, sampled
from tests.support.tables import delta_rs_rows, folder_content, rows, sorted_rows, spark_rows, values, write_rows

pytestmark = pytest.mark.spark

KINDS = {
    "plain": {},
    "vectors and feed": VECTORS | FEED,
    "name mapping, vectors": VECTORS | {"delta.columnMapping.mode": "name"},
    "id mapping, feed": FEED | {"delta.columnMapping.mode": "id"},
}
NAMES = "id, day, amount, note"
START = {1: ("a", 10, "x"), 2: ("a", 20, None), 3: ("b", 30, "x"), 4: ("b", None, "y"), None: (None, 5, "z")}
ON = "target.id = source.id"
STEPS = {
    "every kind of clause": (
        ["1, 'a', NULL, 'new'", "3, 'b', 33, 'new'", "7, 'c', 70, 'new'", "NULL, 'c', 0, 'null'"],
        {
            "matched": [{"delete": True, "condition": "source.amount IS NULL"}, {"update": "*"}],
            "inserts": [{"insert": "*"}],
            "by_source": [{"update": {"note": "'stale'"}, "condition": "target.day < 'b'"}],
        },
        {2: ("a", 20, "stale"), 3: ("b", 33, "new"), 7: ("c", 70, "new")},
        [1],
        [(None, ("c", 0, "null"))],
    ),
    "only inserts": (
        ["3, 'b', 1, 'x'", "8, 'd', 80, 'x'", "9, 'd', -9, 'x'", "10, 'd', 0, 'x'"],
        {
            "inserts": [
                {"insert": {"id": "id", "Amount": "-amount"}, "condition": "source.amount < 0"},
                {"insert": "*", "condition": "amount > 0"},
            ]
        },
        {8: ("d", 80, "x"), 9: (None, 9, None)},
        [],
        [],
    ),
    "only matched clauses, of which the first true one applies": (
        ["2, 'a', 2, 'two'", "4, 'b', 4, 'four'", "8, 'd', 8, 'eight'", "99, 'd', 99, 'none'"],
        {
            "matched": [
                {"update": {"note": "'first'"}, "condition": "source.amount <= 4 AND target.amount IS NOT NULL"},
                {"update": {"note": "concat(target.note, source.note)"}, "condition": "source.amount <= 4"},
                {"delete": True},
            ]
        },
        {2: ("a", 20, "first"), 4: ("b", None, "yfour")},
        [8],
        [],
    ),
    "only NOT MATCHED BY SOURCE clauses": (
        ["2, 'a', 0, 'x'", "9, 'a', 0, 'x'"],
        {
            "by_source": [
                {"delete": True, "condition": "id IS NULL AND day IS NOT NULL"},
                {"update": {"amount": "amount + 1", "day": "upper(day)"}, "condition": "amount > 31"},
                {"delete": True, "condition": "amount > 70"},
            ]
        },
        {3: ("B", 34, "new"), 7: ("C", 71, "new")},
        [],
        [],
    ),
    "an unconditional delete of rows with several matches": (
        ["7, 'x', 0, 'x'", "7, 'y', 0, 'x'", "12, 'y', 0, 'x'"],
        {"matched": [{"delete": True}], "inserts": [{"insert": "*"}]},
        {12: ("y", 0, "x")},
        [7],
        [],
    ),
}
"""Merges that run one after the other, by the kind of their clauses.

Each has the source rows, the clauses, the updated and inserted rows by key, the keys of the deleted rows, and the
inserted rows with a null key.
"""


def query_for(table_rows):
    """The query for literal rows."""
    return values(NAMES, *[str(row)[1:-1].replace("None", "NULL") for row in table_rows])


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [
        pytest.param("plain", ("day",), marks=pytest.mark.campaign),
        ("vectors and feed", ()),
        pytest.param("name mapping, vectors", (), marks=pytest.mark.campaign),
        pytest.param("id mapping, feed", ("day",), marks=pytest.mark.campaign),
    ],
    ids=str,
)
def test_each_clause_changes_exactly_the_rows_that_it_covers(spark, tmp_path, pytestconfig, kind, partition_by):
    table, last_step = tmp_path / "t", list(STEPS)[-1]
    expected_rows = [(key, *row) for key, row in START.items()]
    write_rows(spark, table, query_for(expected_rows), properties=KINDS[kind], partition_by=partition_by)
    for step, (source, clauses, new_rows, deleted_keys, keyless_inserts) in STEPS.items():
        result = merge_into(spark, table, values(NAMES, *source), ON, **clauses)
        if step == "only NOT MATCHED BY SOURCE clauses":
            # Two rows have a null key. The step deletes the one that has a day.
            deleted_rows = [row for row in expected_rows if row[0] is None and row[1] is not None]
        else:
            deleted_rows = [row for row in expected_rows if row[0] in deleted_keys]
        updated_rows = {row[0]: row for row in expected_rows if row[0] in new_rows}
        keyless_rows = [(key, *row) for key, row in keyless_inserts]
        previous_rows = expected_rows
        expected_rows = [row for row in previous_rows if row not in deleted_rows and row[0] not in new_rows]
        expected_rows += [(key, *row) for key, row in new_rows.items()] + keyless_rows
        assert rows(table) == sorted_rows(expected_rows), step
        if step == last_step or pytestconfig.getoption("--campaign"):
            assert spark_rows(spark, table) == sorted_rows(expected_rows), step
        if "delta.columnMapping.mode" not in KINDS[kind]:
            assert delta_rs_rows(table) == sorted_rows(expected_rows), step
        inserted_rows = [(key, *row) for key, row in new_rows.items() if key not in updated_rows] + keyless_rows
        counts = [result.metrics[f"numTargetRows{action}"] for action in ("Inserted", "Updated", "Deleted")]
        assert counts == [len(inserted_rows), len(updated_rows), len(deleted_rows)], step
        assert result.metrics["numSourceRows"] == len(source)
        assert "vectors" not in kind or result.metrics["numTargetRowsCopied"] == 0
        if "feed" in kind:
            changes = [("insert", *row) for row in inserted_rows] + [("delete", *row) for row in deleted_rows]
            changes += [("update_preimage", *row) for row in updated_rows.values()]
            changes += [("update_postimage", key, *new_rows[key]) for key in updated_rows]
            assert feed(table, result.version) == sorted_rows(changes), step
    assert not any(table.glob("_deltalite_staging*"))


CONDITIONS: list[tuple[str, str, list[int | None]]] = [
    ("target.id = source.key", "1, NULL", [1]),
    ("target.id <=> source.key", "1, NULL", [1, None]),
    ("id = key", "1", [1]),
    ("source.key BETWEEN target.id AND target.id + 1", "1", [1]),
    ("target.id > 1 AND source.key > 1", "5", [2]),
    ("target.id + 0 = source.key AND target.note = 'one'", "1", [1]),
    ("CAST(target.id AS STRING) = CAST(source.key AS STRING)", "2", [2]),
    ("true", "1", [1, 2, None]),
    ("1 = 0", "1", []),
    ("NULL", "1", []),
    ("target.id = 2 AND source.key = 1", "1", [2]),
    ("target.id = 2", "3", [2]),
    ("source.key = 3", "3", [1, 2, None]),
    ("target.id = source.key", "", []),
    ("true", "", []),
]
"""ON conditions, each with the keys of the source rows and the keys of the target rows that match."""


@pytest.mark.smoke
@pytest.mark.parametrize(("on", "keys", "matched_keys"), sample_every(5, CONDITIONS))
def test_a_merge_matches_the_rows_for_which_its_on_condition_is_true(spark, tmp_path, on, keys, matched_keys):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, note", "1, 'one'", "2, 'two'", "NULL, 'none'"))
    lines = ", ".join(f"({key})" for key in (keys or "0").split(", "))
    query = f"SELECT CAST(key AS BIGINT) AS key FROM VALUES {lines} AS rows(key) WHERE {'true' if keys else 'false'}"
    matched, inserts = [{"update": {"note": "'hit'"}}], [{"insert": {"id": "key", "note": "'new'"}}]
    result = merge_into(spark, table, query, on, matched=matched, inserts=inserts)
    rows_read = rows(table)
    assert [key for key, note in rows_read if note == "hit"] == matched_keys
    # At most one source row matches. With `<=>`, both match.
    insert_count = len(keys.split(", ")) - bool(matched_keys) if keys else 0
    insert_count = 0 if on == "target.id <=> source.key" else insert_count
    reported_count = result.metrics.get("numTargetRowsInserted", 0)
    assert sum(note == "new" for _, note in rows_read) == insert_count == reported_count
    assert result.committed is bool(matched_keys or insert_count)


def test_a_merge_accepts_an_empty_table_and_an_empty_source(spark, tmp_path):
    write_rows(spark, tmp_path / "t", "SELECT 1L AS id, 'a' AS note WHERE 1 = 0")
    clauses = {"matched": [{"delete": True}], "inserts": [{"insert": "*"}], "by_source": [{"delete": True}]}
    result = merge_into(spark, tmp_path / "t", values("id, note", "1, 'a'", "1, 'a'"), ON, **clauses)
    assert rows(tmp_path / "t") == [(1, "a"), (1, "a")] and result.metrics["numTargetRowsInserted"] == 2
    result = merge_into(spark, tmp_path / "t", "SELECT 1L AS id, 'a' AS note WHERE 1 = 0", ON, **clauses)
    assert rows(tmp_path / "t") == [] and result.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 2


@pytest.fixture(scope="module")
def table_with_repeated_keys(spark, tmp_path_factory):
    table = tmp_path_factory.mktemp("repeated") / "t"
    write_rows(spark, table, values("id, part, note", "1, 'a', 'x'", "1, 'a', 'y'", "2, 'a', 'z'", "3, 'b', 'z'"))
    return table


SOURCE_WITH_REPEATED_KEYS = values(
    "key, part, note", "1, 'a', 'n'", "1, 'a', 'm'", "3, 'b', 'o'", "4, 'b', 'p'", "4, 'b', 'p'"
)
ON_REPEATED_KEYS = "id = key AND target.part = source.part"
AMBIGUOUS_CLAUSES = {
    "an update": [{"update": {"note": "source.note"}}],
    "a conditional delete": [{"delete": True, "condition": "source.note = 'n'"}],
    "a condition that is false": [{"update": {"note": "'never'"}, "condition": "false"}],
    "two deletes": [{"delete": True, "condition": "source.note = 'n'"}, {"delete": True}],
}


@pytest.mark.parametrize("kind", sampled(list(AMBIGUOUS_CLAUSES), {"a condition that is false", "two deletes"}))
def test_ambiguous_matches_are_rejected_with_their_row_count_and_a_key(spark, table_with_repeated_keys, kind):
    table, matched = table_with_repeated_keys, AMBIGUOUS_CLAUSES[kind]
    content_before = folder_content(table)
    with pytest.raises(MultipleMatchesError, match="for 2 rows of the table, more than one row") as error_info:
        merge_into(
            spark, table, SOURCE_WITH_REPEATED_KEYS, ON_REPEATED_KEYS, matched=matched,
            inserts=[{"insert": {"id": "key"}}],
        )  # fmt: skip
    assert error_info.value.problem.count('{"key":1,"part":"a"}') == 2 and "deduplicate" in error_info.value.remedy
    assert folder_content(table) == content_before


def test_several_matches_may_delete_a_row_or_meet_no_clause(spark, table_with_repeated_keys, tmp_path):
    table = shutil.copytree(table_with_repeated_keys, tmp_path / "t")
    source, on = SOURCE_WITH_REPEATED_KEYS, ON_REPEATED_KEYS
    result = merge_into(spark, table, source, on, matched=[{"delete": True}], inserts=[{"insert": {"id": "key"}}])
    assert rows(table) == sorted_rows([(2, "a", "z"), (4, None, None), (4, None, None)])
    assert result.metrics["numTargetRowsDeleted"] == 3
    with pytest.raises(MultipleMatchesError, match="no column of the source is in ON"):
        merge_into(spark, table, values("k", "1", "2"), "target.id = 2", matched=[{"update": {"note": "'n'"}}])
    result = merge_into(spark, table, values("k", "1", "2"), "target.id = 2", by_source=[{"delete": True}])
    assert rows(table) == [(2, "a", "z")] and result.metrics["numTargetRowsDeleted"] == 2


@pytest.mark.sample("name")
@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_column_names_may_equal_relation_names_or_contain_special_characters(spark, tmp_path, mode):
    table = tmp_path / "t"
    special_name = "a.b ,;{}()=`'\"ż" if mode != "none" else "a.b-`'\"ż"
    quoted = "`" + special_name.replace("`", "``") + "`"
    write_rows(
        spark,
        table,
        f"SELECT * FROM VALUES (1, 's1', named_struct('id', 10), 'o1'), (2, 's2', named_struct('id', 20), 'o2') "
        f"AS rows(id, source, target, {quoted})",
        properties={} if mode == "none" else {"delta.columnMapping.mode": mode},
    )
    query = f"SELECT * FROM VALUES (10, 'n1', 'p1', 'q1'), (30, 'n3', 'p3', 'q3') AS rows(id, note, target, {quoted})"
    merge_into(
        spark,
        table,
        query,
        "target.target.id = source.id",
        matched=[
            {
                "update": {"source": "concat(target.source, source.note)", quoted: f"source.{quoted}"},
                "condition": f"target.{quoted} = 'o1' AND source.{quoted} = 'q1' AND length(note) = 2",
            }
        ],
        inserts=[
            {"insert": {"ID": "source.id", quoted: f"{quoted}", "target": "named_struct('id', 5)", "source": "note"}}
        ],
        by_source=[{"update": {"source": f"concat(source, {quoted}, target.id)"}}],
    )
    assert rows(table) == sorted_rows(
        [(1, "s1n1", {"id": 10}, "q1"), (2, "s2o22", {"id": 20}, "o2"), (30, "n3", {"id": 5}, "q3")]
    )


@pytest.mark.campaign
def test_a_self_read_sees_the_table_before_the_merge(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, boss, pay", "1, NULL, 10", "2, 1, 20", "3, 2, 30"), properties=FEED)
    sources = {"source": Source(format="delta", path=str(table))}
    pay_of_boss = "SELECT a.id, b.pay FROM source AS a JOIN source AS b ON a.boss = b.id"
    matched = [{"update": {"pay": "source.pay"}}]
    merge_into(spark, table, pay_of_boss, ON, sources=sources, matched=matched, inserts=[])
    assert rows(table) == sorted_rows([(1, None, 10), (2, 1, 10), (3, 2, 20)])
    merge_into(spark, table, None, ON, sources=sources, matched=[{"delete": True, "condition": "source.pay = 20"}])
    merge_into(spark, table, None, "target.id = source.id + 100", sources=sources, inserts=[{"insert": "*"}])
    assert rows(table) == sorted_rows([(1, None, 10), (2, 1, 10)] * 2)
    changes = {"source": Source(format="delta", path=str(table), changes_from_version=1)}
    query = "SELECT id, max_by(pay, _commit_version) AS pay FROM source WHERE _change_type IN {} GROUP BY id".format(
        "('update_postimage', 'delete')"
    )
    clauses = {"matched": [{"update": {"pay": "-source.pay"}}], "inserts": [{"insert": {"id": "id", "pay": "pay"}}]}
    merge_into(spark, table, query, ON, sources=changes, **clauses)
    assert rows(table) == sorted_rows([(1, None, 10), (1, None, 10), (2, 1, -10), (2, 1, -10), (3, None, 20)])


@pytest.mark.sample(FEED | VECTORS)
@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["files", "vectors"])
def test_non_deterministic_values_are_computed_once_for_the_table_and_its_feed(spark, tmp_path, properties):
    """Source rows, clause values and the current time are the same in the table and in its feed."""
    table = tmp_path / "t"
    old_columns = "0D AS random, '' AS name, TIMESTAMP'2000-01-01' AS at, DATE'2000-01-01' AS day"
    write_rows(spark, table, f"SELECT id, {old_columns} FROM range(40)", properties=properties)
    query = "SELECT id, rand() AS r, uuid() AS u FROM range(30, 60, 1, 4) WHERE rand() < 0.8"
    assignments = {
        "id": "source.id",
        "random": "r + rand()",
        "name": "concat(u, uuid())",
        "at": "current_timestamp()",
        "day": "current_date()",
    }
    matched_update = {name: value for name, value in assignments.items() if name != "id"}
    by_source_update = {"random": "rand()", "at": "current_timestamp()"}
    result = merge_into(
        spark,
        table,
        query,
        ON,
        matched=[{"update": matched_update}],
        inserts=[{"insert": assignments}],
        by_source=[{"update": by_source_update, "condition": "id < 5"}],
    )
    changed_rows = {row[1:] for row in feed(table, result.version) if row[0] in ("insert", "update_postimage")}
    new_rows = {row for row in rows(table) if row[3].year > 2000}
    assert (
        changed_rows == new_rows
        and len(new_rows) == result.metrics["numTargetRowsUpdated"] + result.metrics["numTargetRowsInserted"]
    )
    assert len(changed_rows) == result.metrics["numSourceRows"] + 5 == len({row[1] for row in changed_rows})
    assert len(rows(table)) == 40 + result.metrics["numTargetRowsInserted"]
