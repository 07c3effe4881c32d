"""MERGE reads the source once and only the files that may match, and its history names the source versions."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.errors import ConcurrentAppendException
from deltalite.requests import Source
from deltalite.storage.local import LocalLogStore
from tests.support.loops import sampled
from tests.support.merging import merge_into
from tests.support.tables import commit, data_files, everything, ordered, rows, values, write_rows

pytestmark = pytest.mark.spark

RUN = "ns/dag/merge/-1/manual"
ON = "target.id = source.id"
UPSERT = {"matched": [{"update": {"note": "source.note"}}], "inserts": [{"insert": "*"}]}
NAMES = "id, day, note"
OLD = [(number, day, "old") for day in "abc" for number in (5, 105, 1005)]
NEWS = "5, 'a', 'new'", "1005, 'a', 'new'", "1006, 'a', 'new'"


def literals(table_rows):
    return values(NAMES, *[str(row)[1:-1] for row in table_rows])


@pytest.fixture
def table(spark, tmp_path):
    """A file for each of the hundreds of the ids, in each of three partitions."""
    for number in (5, 105, 1005):
        write_rows(spark, tmp_path / "t", literals(row for row in OLD if row[0] == number), partition_by=("day",))
    return tmp_path / "t"


@pytest.fixture
def rival(spark, monkeypatch):
    """`rival(act)` lets `act` happen between the plan of the next command and its commit."""
    original = LocalLogStore.write_if_absent

    def once(act):
        def first(store, name, data):
            monkeypatch.setattr(LocalLogStore, "write_if_absent", original)
            act()
            return original(store, name, data)

        monkeypatch.setattr(LocalLogStore, "write_if_absent", first)

    return once


def lost(table, *kept):
    """Take away the data files of all rows but these; a scan of one of them would fail."""
    files = DeltaTable(str(table)).files().to_pylist()
    assert len(files) == len(OLD)
    for file in files:
        place = (json.loads(file["stats"])["minValues"]["id"], file["partition_values"][0][1])
        if place not in kept:
            (table / file["path"]).unlink()


READS = {
    "a literal and the source's keys": ("target.day = 'a' AND target.id = source.id", (5, "a"), (1005, "a")),
    "the source's partitions and keys": ("target.day = source.day AND target.id = source.id", (5, "a"), (1005, "a")),
    "the source's keys": (ON, *((number, day) for number in (5, 1005) for day in "abc")),
    "null-safe, of another type": ("CAST(target.id AS BIGINT) <=> CAST(source.id AS BIGINT) AND target.day = 'b'",
                                   (5, "b"), (1005, "b")),
}  # fmt: skip


@pytest.mark.parametrize(
    "reads", sampled(list(READS), {"the source's partitions and keys", "null-safe, of another type"})
)
def test_a_file_that_cannot_match_is_not_read(spark, table, reads):
    on, *kept = READS[reads]
    lost(table, *kept)
    done = merge_into(spark, table, values(NAMES, *NEWS), on, **UPSERT)
    assert done.metrics["numTargetRowsUpdated"] == len(kept) == done.metrics["numTargetFilesRemoved"]
    assert done.metrics["numTargetRowsInserted"] == 1
    none = merge_into(spark, table, values(NAMES, *NEWS) + " WHERE false", on, **UPSERT)
    assert not none.committed and none.metrics.get("numTargetFilesRemoved", 0) == 0


def test_only_what_may_match_keeps_a_merge_from_standing_on_a_winner(spark, table, rival):
    def winner(*lines):
        return lambda: write_rows(spark, table, values(NAMES, *lines), mode="append")

    def merge(query=None, on=ON, **clauses):
        clauses = clauses or UPSERT
        return merge_into(spark, table, query or values(NAMES, *NEWS), on, conflict_retries=0, **clauses)

    apart = [
        (merge, ("700, 'a', 'theirs'",)),
        (lambda: merge(on=f"{ON} AND target.day = source.day"), ("1005, 'z', 'theirs'",)),
        (lambda: merge(on="id = 5", query="SELECT 1 AS one", matched=[{"update": {"note": "'x'"}}]), ("6, 'a', 't'",)),
        (
            lambda: merge(by_source=[{"update": {"note": "'gone'"}, "condition": "day = 'c' AND id < 200"}]),
            ("900, 'c', 'theirs'",),
        ),
        (
            lambda: merge(f"{literals(OLD)} WHERE false", by_source=[{"delete": True, "condition": "day = 'c'"}]),
            ("5, 'a', 'theirs'",),
        ),
    ]  # fmt: skip
    for ours, theirs in apart:
        rival(winner(*theirs))
        done = ours()
        assert done.version == done.read_version + 2, theirs
    for ours, theirs in (
        (merge, ("1005, 'q', 'theirs'",)),
        (lambda: merge(by_source=[{"update": {"note": "'x'"}}]), ("444, 'q', 'theirs'",)),
        (lambda: merge(values(NAMES, "5, 'a', 'new'"), on="source.id > 0"), ("444, 'q', 'theirs'",)),
    ):
        rival(winner(*theirs))
        with pytest.raises(ConcurrentAppendException, match="day=q"):
            ours()


def test_a_merge_of_the_table_into_itself_stands_on_no_winner(spark, table, rival):
    """Its rows depend on every row of the table, also on one that no key of it has."""
    sources = {"own": Source(format="delta", path=str(table))}

    def grow(**options):
        rival(lambda: write_rows(spark, table, values(NAMES, "7000, 'q', 'theirs'"), mode="append"))
        query = "SELECT max(id) + 1 AS id, 'm' AS day, 'mine' AS note FROM own"
        return merge_into(spark, table, query, ON, sources=sources, inserts=[{"insert": "*"}], **options)

    with pytest.raises(ConcurrentAppendException, match="day=q"):
        grow(conflict_retries=0)
    done = grow(conflict_retries=1)
    assert done.version == done.read_version + 1
    assert [row for row in rows(table) if row[1] == "m"] == [(7001, "m", "mine")]


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.campaign), True], ids=["files", "vectors"])
def test_the_source_is_read_once_also_when_the_merge_is_planned_again(spark, table, rival, tmp_path, vectors):
    """The input is gone when the winner has written one of its keys, and each of its rows has been computed once."""
    if vectors:
        table = tmp_path / "vectors"
        write_rows(spark, table, literals(OLD), properties={"delta.enableDeletionVectors": "true"})
    landing = tmp_path / "landing.csv"
    landing.write_text("".join(f"{number},n{number}\n" for number in (5, 105, 7000, 7001)))
    calls = spark.sparkContext.accumulator(0)

    def counted(text):
        calls.add(1)
        return text

    spark.udf.register("counted", counted)

    def win():
        landing.unlink()
        write_rows(spark, table, values(NAMES, "7000, 'w', 'theirs'"), mode="append")

    rival(win)
    before = len(data_files(table))
    done = merge_into(
        spark,
        table,
        "SELECT id, counted(note) AS note, 'n' AS day FROM landed",
        ON,
        sources={"landed": Source(format="csv", path=str(landing), schema="id INT, note STRING")},
        **UPSERT,
    )
    old = [(number, day, "old" if number == 1005 else f"n{number}") for number, day, _ in OLD]
    assert rows(table) == ordered([*old, (7000, "w", "n7000"), (7001, "n", "n7001")])
    assert done.version == done.read_version + 1 and calls.value == 4
    live = {file["path"] for file in commit(table, done.version)["add"]}
    assert before < len(data_files(table)) and live <= data_files(table)


def test_a_run_merges_once_also_when_nothing_matched(spark, table, tmp_path):
    landing = tmp_path / "landing.csv"
    csv = {"landed": Source(format="csv", path=str(landing), schema="id INT, day STRING, note STRING")}
    for run, text, clauses in (
        ("changes", "5,a,new\n9000,a,new\n", UPSERT),
        ("nothing matched", "9999,a,new\n", {"matched": UPSERT["matched"]}),
        ("nothing came", "", {**UPSERT, "by_source": [{"delete": True, "condition": "id < 0"}]}),
    ):
        landing.write_text(text)
        first = merge_into(spark, table, None, ON, sources=csv, run=run, **clauses)
        assert first.committed and not first.skipped
        landing.unlink()
        before = everything(table)
        again = merge_into(spark, table, None, ON, sources=csv, run=run, **clauses)
        assert again.skipped and not again.committed and again.version == first.version
        assert again.metrics == first.metrics and everything(table) == before
        actions = commit(table, first.version)
        assert actions["txn"]["appId"] == run
        assert bool(actions["add"]) is bool(actions["remove"]) is (run == "changes")
    version = DeltaTable(str(table)).version
    done = merge_into(spark, table, values(NAMES, "-1, 'a', 'n'"), ON, matched=UPSERT["matched"])
    assert (done.committed, done.version, done.read_version) == (False, version, version)
    assert DeltaTable(str(table)).version == version


CLAUSES = {
    "matched": [{"delete": True, "condition": "source.note = 'go'"}, {"update": {"note": "source.note"}}],
    "inserts": [{"insert": "*", "condition": "source.id > 0"}],
    "by_source": [
        {"update": {"note": "'stale'"}, "condition": "target.day = 'c' AND id < 100"},
        {"delete": True, "condition": "target.day = 'c' AND id > 1000"},
    ],
}
SAID = {
    "predicate": ["target.id = source.id AND target.day = source.day"],
    "matchedPredicates": [{"predicate": "source.note = 'go'", "actionType": "delete"}, {"actionType": "update"}],
    "notMatchedPredicates": [{"predicate": "source.id > 0", "actionType": "insert"}],
    "notMatchedBySourcePredicates": [
        {"predicate": "target.day = 'c' AND id < 100", "actionType": "update"},
        {"predicate": "target.day = 'c' AND id > 1000", "actionType": "delete"},
    ],
}


@pytest.mark.parametrize("kind", ["files", "vectors and feed"])
def test_the_history_tells_what_happened_in_the_words_of_spark(spark, tmp_path, kind):
    table = tmp_path / "t"
    features = ("delta.enableDeletionVectors", "delta.enableChangeDataFeed") if kind != "files" else ()
    write_rows(spark, table, literals(OLD).replace("SELECT", "SELECT /*+ COALESCE(1) */"), partition_by=("day",),
        properties=dict.fromkeys(features, "true"))  # fmt: skip
    source = values(NAMES, "5, 'a', 'go'", "105, 'a', 'new'", "7, 'b', 'new'", "-7, 'b', 'no'")
    done = merge_into(spark, table, source, f"{ON} AND target.day = source.day", **CLAUSES)
    info = commit(table, done.version)["commitInfo"]
    assert info["operation"] == "MERGE" and info["readVersion"] == 0 and info["isBlindAppend"] is False
    assert {name: json.loads(text) for name, text in info["operationParameters"].items()} == SAID
    metrics = {name: int(text) for name, text in info["operationMetrics"].items()}
    assert {name: number for name, number in done.metrics.items() if name in metrics} == metrics
    counts = {name: number for name, number in metrics.items() if "Bytes" not in name and not name.endswith("Ms")}
    marked = kind != "files"
    assert counts == {
        "numSourceRows": 4,
        "numTargetRowsInserted": 1,
        "numTargetRowsUpdated": 2,
        "numTargetRowsDeleted": 2,
        "numTargetRowsMatchedUpdated": 1,
        "numTargetRowsMatchedDeleted": 1,
        "numTargetRowsNotMatchedBySourceUpdated": 1,
        "numTargetRowsNotMatchedBySourceDeleted": 1,
        "numTargetRowsCopied": 0 if marked else 2,
        "numOutputRows": 3 if marked else 5,
        "numTargetFilesAdded": 3,
        "numTargetFilesRemoved": 0 if marked else 2,
        "numTargetChangeFilesAdded": 3 if marked else 0,
        "numTargetDeletionVectorsAdded": 2 if marked else 0,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetDeletionVectorsUpdated": 0,
    }
    assert {name for name in metrics if name.endswith("Ms")} >= {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"}
    assert metrics["numTargetBytesAdded"] > 0 and (metrics["numTargetBytesRemoved"] > 0) is not marked
