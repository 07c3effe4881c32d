"""MERGE: each clause does what it says to the rows that it may speak of, whatever the table is like and ON says."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from deltalite.errors import MultipleMatchesError
from deltalite.requests import Source
from tests.support.merging import feed, merge_into
from tests.support.tables import everything, ordered, rows, spark_rows, values, write_rows

pytestmark = pytest.mark.spark

VECTORS, FEED = {"delta.enableDeletionVectors": "true"}, {"delta.enableChangeDataFeed": "true"}
KINDS = {
    "plain": {},
    "vectors and feed": VECTORS | FEED,
    "named, vectors": VECTORS | {"delta.columnMapping.mode": "name"},
    "by id, feed": FEED | {"delta.columnMapping.mode": "id"},
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
    "only matches, and the first clause that holds": (
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
    "only rows without a match": (
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
    "whatever matches goes, however often": (
        ["7, 'x', 0, 'x'", "7, 'y', 0, 'x'", "12, 'y', 0, 'x'"],
        {"matched": [{"delete": True}], "inserts": [{"insert": "*"}]},
        {12: ("y", 0, "x")},
        [7],
        [],
    ),
}
"""Merges one after the other: the source, the clauses, the rows that change or come, the keys that go, and rows of no
key that come."""


def literals(table_rows):
    return values(NAMES, *[str(row)[1:-1].replace("None", "NULL") for row in table_rows])


def by_other(table):
    answer = QueryBuilder().register("t", OtherTable(str(table))).execute("SELECT * FROM t")
    return ordered(tuple(row.values()) for row in pa.table(answer.read_all()).to_pylist())


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [
        ("plain", ("day",)),
        ("vectors and feed", ()),
        pytest.param("named, vectors", (), marks=pytest.mark.campaign),
        pytest.param("by id, feed", ("day",), marks=pytest.mark.campaign),
    ],
    ids=str,
)
def test_rows_become_what_the_clauses_make_of_them(spark, tmp_path, kind, partition_by):
    table = tmp_path / "t"
    now = [(key, *row) for key, row in START.items()]
    write_rows(spark, table, literals(now), properties=KINDS[kind], partition_by=partition_by)
    for step, (source, clauses, new, gone, keyless) in STEPS.items():
        done = merge_into(spark, table, values(NAMES, *source), ON, **clauses)
        if step == "only rows without a match":  # two of the rows without a key, of which one has no day
            gone_rows = [row for row in now if row[0] is None and row[1] is not None]
        else:
            gone_rows = [row for row in now if row[0] in gone]
        had = {row[0]: row for row in now if row[0] in new}
        come = [(key, *row) for key, row in keyless]
        before = now
        now = [row for row in before if row not in gone_rows and row[0] not in new]
        now += [(key, *row) for key, row in new.items()] + come
        assert rows(table) == ordered(now) == spark_rows(spark, table), step
        if "delta.columnMapping.mode" not in KINDS[kind]:
            assert by_other(table) == ordered(now), step
        inserted = [(key, *row) for key, row in new.items() if key not in had] + come
        counts = [done.metrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted")]
        assert counts == [len(inserted), len(had), len(gone_rows)], step
        assert done.metrics["numSourceRows"] == len(source)
        assert "vectors" not in kind or done.metrics["numTargetRowsCopied"] == 0
        if "feed" in kind:
            changes = [("insert", *row) for row in inserted] + [("delete", *row) for row in gone_rows]
            changes += [("update_preimage", *row) for row in had.values()]
            changes += [("update_postimage", key, *new[key]) for key in had]
            assert feed(table, done.version) == ordered(changes), step
    assert not any(table.glob("_deltalite_staging*"))


CONDITIONS = [
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
"""ON, the keys of the source, and those of the table's rows that match."""


@pytest.mark.smoke
def test_rows_match_where_on_is_true(spark, tmp_path):
    write_rows(spark, tmp_path / "start", values("id, note", "1, 'one'", "2, 'two'", "NULL, 'none'"))
    for number, (on, keys, expected) in enumerate(CONDITIONS):
        table = shutil.copytree(tmp_path / "start", tmp_path / str(number))
        rows_of = ", ".join(f"({key})" for key in (keys or "0").split(", "))
        query = (
            f"SELECT CAST(key AS BIGINT) AS key FROM VALUES {rows_of} AS rows(key) WHERE {'true' if keys else 'false'}"
        )
        matched, inserts = [{"update": {"note": "'hit'"}}], [{"insert": {"id": "key", "note": "'new'"}}]
        done = merge_into(spark, table, query, on, matched=matched, inserts=inserts)
        rows_read = rows(table)
        assert [key for key, note in rows_read if note == "hit"] == expected, on
        new = len(keys.split(", ")) - bool(expected) if keys else 0
        new = 0 if on == "target.id <=> source.key" else new
        assert sum(note == "new" for _, note in rows_read) == new == done.metrics.get("numTargetRowsInserted", 0), on
        assert done.committed is bool(expected or new)


def test_an_empty_table_takes_what_does_not_match(spark, tmp_path):
    write_rows(spark, tmp_path / "t", "SELECT 1L AS id, 'a' AS note WHERE 1 = 0")
    clauses = {"matched": [{"delete": True}], "inserts": [{"insert": "*"}], "by_source": [{"delete": True}]}
    done = merge_into(spark, tmp_path / "t", values("id, note", "1, 'a'", "1, 'a'"), ON, **clauses)
    assert rows(tmp_path / "t") == [(1, "a"), (1, "a")] and done.metrics["numTargetRowsInserted"] == 2
    done = merge_into(spark, tmp_path / "t", "SELECT 1L AS id, 'a' AS note WHERE 1 = 0", ON, **clauses)
    assert rows(tmp_path / "t") == [] and done.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 2


def test_rows_that_match_more_than_one_are_refused_with_their_number_and_a_key(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, part, note", "1, 'a', 'x'", "1, 'a', 'y'", "2, 'a', 'z'", "3, 'b', 'z'"))
    source = values("key, part, note", "1, 'a', 'n'", "1, 'a', 'm'", "3, 'b', 'o'", "4, 'b', 'p'", "4, 'b', 'p'")
    on = "id = key AND target.part = source.part"
    before = everything(table)
    for matched in (
        [{"update": {"note": "source.note"}}],
        [{"delete": True, "condition": "source.note = 'n'"}],
        [{"update": {"note": "'never'"}, "condition": "false"}],
        [{"delete": True, "condition": "source.note = 'n'"}, {"delete": True}],
    ):
        with pytest.raises(MultipleMatchesError, match="2 rows of the table match more than one") as caught:
            merge_into(spark, table, source, on, matched=matched, inserts=[{"insert": {"id": "key"}}])
        assert caught.value.problem.count('{"key":1,"part":"a"}') == 2 and "max_by" in caught.value.remedy
        assert everything(table) == before
    done = merge_into(spark, table, source, on, matched=[{"delete": True}], inserts=[{"insert": {"id": "key"}}])
    assert rows(table) == ordered([(2, "a", "z"), (4, None, None), (4, None, None)])
    assert done.metrics["numTargetRowsDeleted"] == 3
    with pytest.raises(MultipleMatchesError, match="no column of the source is in ON"):
        merge_into(spark, table, values("k", "1", "2"), "target.id = 2", matched=[{"update": {"note": "'n'"}}])
    done = merge_into(spark, table, values("k", "1", "2"), "target.id = 2", by_source=[{"delete": True}])
    assert rows(table) == [(2, "a", "z")] and done.metrics["numTargetRowsDeleted"] == 2


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_names_mean_what_they_say_whatever_they_are(spark, tmp_path, mode):
    """A column called as the rows are, as one of the source, and with all that a name can hold."""
    table = tmp_path / "t"
    odd = "a.b ,;{}()=`'\"ż" if mode != "none" else "a.b-`'\"ż"
    quoted = "`" + odd.replace("`", "``") + "`"
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
    assert rows(table) == ordered(
        [(1, "s1n1", {"id": 10}, "q1"), (2, "s2o22", {"id": 20}, "o2"), (30, "n3", {"id": 5}, "q3")]
    )


def test_a_table_is_merged_into_itself_as_it_was(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, boss, pay", "1, NULL, 10", "2, 1, 20", "3, 2, 30"), properties=FEED)
    sources = {"source": Source(format="delta", path=str(table))}
    boss = "SELECT a.id, b.pay FROM source AS a JOIN source AS b ON a.boss = b.id"
    matched = [{"update": {"pay": "source.pay"}}]
    merge_into(spark, table, boss, ON, sources=sources, matched=matched, inserts=[])
    assert rows(table) == ordered([(1, None, 10), (2, 1, 10), (3, 2, 20)])
    merge_into(spark, table, None, ON, sources=sources, matched=[{"delete": True, "condition": "source.pay = 20"}])
    merge_into(spark, table, None, "target.id = source.id + 100", sources=sources, inserts=[{"insert": "*"}])
    assert rows(table) == ordered([(1, None, 10), (2, 1, 10)] * 2)
    changed = {"source": Source(format="delta", path=str(table), changes_from_version=1)}
    query = "SELECT id, max_by(pay, _commit_version) AS pay FROM source WHERE _change_type IN {} GROUP BY id".format(
        "('update_postimage', 'delete')"
    )
    again = {"matched": [{"update": {"pay": "-source.pay"}}], "inserts": [{"insert": {"id": "id", "pay": "pay"}}]}
    merge_into(spark, table, query, ON, sources=changed, **again)
    assert rows(table) == ordered([(1, None, 10), (1, None, 10), (2, 1, -10), (2, 1, -10), (3, None, 20)])


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["files", "vectors"])
def test_values_that_are_others_each_time_are_computed_once(spark, tmp_path, properties):
    """Rows of the source, values of the clauses, and the time: the table and its feed tell the same."""
    table = tmp_path / "t"
    old = "0D AS random, '' AS name, TIMESTAMP'2000-01-01' AS at, DATE'2000-01-01' AS day"
    write_rows(spark, table, f"SELECT id, {old} FROM range(40)", properties=properties)
    query = "SELECT id, rand() AS r, uuid() AS u FROM range(30, 60, 1, 4) WHERE rand() < 0.8"
    values_ = {
        "id": "source.id",
        "random": "r + rand()",
        "name": "concat(u, uuid())",
        "at": "current_timestamp()",
        "day": "current_date()",
    }
    update = {name: value for name, value in values_.items() if name != "id"}
    stale = {"random": "rand()", "at": "current_timestamp()"}
    done = merge_into(
        spark,
        table,
        query,
        ON,
        matched=[{"update": update}],
        inserts=[{"insert": values_}],
        by_source=[{"update": stale, "condition": "id < 5"}],
    )
    changed = {row[1:] for row in feed(table, done.version) if row[0] in ("insert", "update_postimage")}
    new = {row for row in rows(table) if row[3].year > 2000}
    assert changed == new and len(new) == done.metrics["numTargetRowsUpdated"] + done.metrics["numTargetRowsInserted"]
    assert len(changed) == done.metrics["numSourceRows"] + 5 == len({row[1] for row in changed})
    assert len(rows(table)) == 40 + done.metrics["numTargetRowsInserted"]
