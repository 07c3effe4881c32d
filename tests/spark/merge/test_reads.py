"""MERGE reads the source once, reads only the files that may match, and commits the metrics of delta-spark."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite import DeltaTable
from deltalite.errors import ConcurrentAppendException
from deltalite.protocol.schema import PrimitiveType
from deltalite.requests import Source
from deltalite.spark.merge.join_condition import KeyPair
from deltalite.spark.merge.source_keys import ranges_predicate, source_keys
from tests.support.merging import merge_into
from tests.support.racing import run_before_commits
from tests.support.selection import sampled
from tests.support.tables import actions_of, data_files, folder_content, rows, sorted_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

RUN = "ns/dag/merge/-1/manual"
ON = "target.id = source.id"
UPSERT = {"matched": [{"update": {"note": "source.note"}}], "inserts": [{"insert": "*"}]}
NAMES = "id, day, note"
OLD_ROWS = [(number, day, "old") for day in "abc" for number in (5, 105, 1005)]
SOURCE_ROWS = "5, 'a', 'new'", "1005, 'a', 'new'", "1006, 'a', 'new'"


def query_for(table_rows):
    """The query for literal rows."""
    return values(NAMES, *[str(row)[1:-1] for row in table_rows])


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table with three partitions, each with one file for each of three ids."""
    table = tmp_path_factory.mktemp("template") / "t"
    for number in (5, 105, 1005):
        write_rows(spark, table, query_for(row for row in OLD_ROWS if row[0] == number), partition_by=("day",))
    return table


@pytest.fixture
def table(template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(template, tmp_path / "t")


@pytest.fixture
def before_commit(monkeypatch):
    """Return `before_commit(action)`, which runs `action` between the plan of the next command and its commit."""
    return partial(run_before_commits, monkeypatch)


def delete_data_files_except(table, *remaining):
    """Delete the data files of all but these (id, day) pairs, so that a scan of a deleted file fails."""
    files = DeltaTable(str(table)).files().to_pylist()
    assert len(files) == len(OLD_ROWS)
    for file in files:
        id_and_day = (json.loads(file["stats"])["minValues"]["id"], file["partition_values"][0][1])
        if id_and_day not in remaining:
            (table / file["path"]).unlink()


# For each kind of ON condition: the condition, and the (id, day) of each file that may match.
CONDITIONS = {
    "a literal and the source's keys": ("target.day = 'a' AND target.id = source.id", (5, "a"), (1005, "a")),
    "the source's partitions and keys": ("target.day = source.day AND target.id = source.id", (5, "a"), (1005, "a")),
    "the source's keys": (ON, *((number, day) for number in (5, 1005) for day in "abc")),
    "null-safe, with another type": ("CAST(target.id AS BIGINT) <=> CAST(source.id AS BIGINT) AND target.day = 'b'",
                                     (5, "b"), (1005, "b")),
}  # fmt: skip


@pytest.mark.parametrize("kind", sampled(list(CONDITIONS), {"null-safe, with another type"}))
def test_a_file_that_cannot_match_is_not_read(spark, table, kind):
    on, *possible_matches = CONDITIONS[kind]
    delete_data_files_except(table, *possible_matches)
    result = merge_into(spark, table, values(NAMES, *SOURCE_ROWS), on, **UPSERT)
    assert result.metrics["numTargetRowsUpdated"] == len(possible_matches) == result.metrics["numTargetFilesRemoved"]
    assert result.metrics["numTargetRowsInserted"] == 1
    empty_merge = merge_into(spark, table, values(NAMES, *SOURCE_ROWS) + " WHERE false", on, **UPSERT)
    assert not empty_merge.committed and empty_merge.metrics.get("numTargetFilesRemoved", 0) == 0


def test_close_large_keys_and_a_null_key_are_merged(spark, tmp_path):
    """The doubles of such keys are equal, so all values fall into one range."""
    table, low, high = tmp_path / "close", 2**60, 2**60 + 10
    for number in (low, high):
        write_rows(spark, table, values("id, note", f"{number}, 'old'"))
    source = values("id, note", f"{low}, 'new'", f"{high}, 'new'", "NULL, 'new'")
    merge_into(spark, table, source, ON, **UPSERT)
    assert set(rows(table)) == {(None, "new"), (low, "new"), (high, "new")}


@pytest.mark.parametrize("null_count", [0, 1])
def test_the_keys_of_a_source_have_at_most_64_ranges(spark, null_count):
    source = spark.range(65).selectExpr("id").unionAll(spark.sql("SELECT CAST(NULL AS BIGINT)").limit(null_count))
    long = PrimitiveType("long")
    key = KeyPair(target=("id",), target_type=long, source=F.col("id"), source_type=long, null_safe=False)
    predicate = ranges_predicate(source, source_keys(source, [key], ()))
    assert len(predicate.children) == 64


# Each case: the row that another writer appends, the query, the condition, and the clauses of the merge.
COMPATIBLE_APPENDS = {
    "no source row has the key": ("700, 'a', 'theirs'", values(NAMES, *SOURCE_ROWS), ON, UPSERT),
    "no source row has the partition": (
        "1005, 'z', 'theirs'",
        values(NAMES, *SOURCE_ROWS),
        f"{ON} AND target.day = source.day",
        UPSERT,
    ),
    "a literal excludes the row": (
        "6, 'a', 't'",
        "SELECT 1 AS one",
        "id = 5",
        {"matched": [{"update": {"note": "'x'"}}]},
    ),
    "the condition by source excludes the row": (
        "900, 'c', 'theirs'",
        values(NAMES, *SOURCE_ROWS),
        ON,
        {"by_source": [{"update": {"note": "'gone'"}, "condition": "day = 'c' AND id < 200"}]},
    ),
    "the source is empty": (
        "5, 'a', 'theirs'",
        f"{query_for(OLD_ROWS)} WHERE false",
        ON,
        {"by_source": [{"delete": True, "condition": "day = 'c'"}]},
    ),
}
CONFLICTING_APPENDS = {
    "a source row has the key": ("1005, 'q', 'theirs'", values(NAMES, *SOURCE_ROWS), ON, UPSERT),
    "a clause by source has no condition": (
        "444, 'q', 'theirs'",
        values(NAMES, *SOURCE_ROWS),
        ON,
        {"by_source": [{"update": {"note": "'x'"}}]},
    ),
    "the condition matches every row": ("444, 'q', 'theirs'", values(NAMES, "5, 'a', 'new'"), "source.id > 0", UPSERT),
}


@pytest.mark.parametrize(
    "case",
    sampled(list(COMPATIBLE_APPENDS), {"the condition by source excludes the row"}),
)
def test_a_concurrent_append_is_compatible_if_no_clause_can_apply_to_its_rows(spark, table, before_commit, case):
    row, query, on, clauses = COMPATIBLE_APPENDS[case]
    before_commit(lambda: write_rows(spark, table, values(NAMES, row), mode="append"))
    result = merge_into(spark, table, query, on, conflict_retries=0, **clauses)
    assert result.version == result.read_version + 2


@pytest.mark.parametrize("case", sampled(list(CONFLICTING_APPENDS), {"a source row has the key"}))
def test_a_concurrent_append_conflicts_if_a_clause_may_apply_to_its_rows(spark, table, before_commit, case):
    row, query, on, clauses = CONFLICTING_APPENDS[case]
    before_commit(lambda: write_rows(spark, table, values(NAMES, row), mode="append"))
    with pytest.raises(ConcurrentAppendException, match="day=q"):
        merge_into(spark, table, query, on, conflict_retries=0, **clauses)


def test_a_merge_with_a_self_read_conflicts_with_every_concurrent_append(spark, table, before_commit):
    """The source rows depend on every row of the table, including rows that match none of their keys."""
    sources = {"previous_rows": Source(format="delta", path=str(table))}

    def merge_next_id(**options):
        before_commit(lambda: write_rows(spark, table, values(NAMES, "7000, 'q', 'theirs'"), mode="append"))
        query = "SELECT max(id) + 1 AS id, 'm' AS day, 'mine' AS note FROM previous_rows"
        return merge_into(spark, table, query, ON, sources=sources, inserts=[{"insert": "*"}], **options)

    with pytest.raises(ConcurrentAppendException, match="day=q"):
        merge_next_id(conflict_retries=0)
    result = merge_next_id(conflict_retries=1)
    assert result.version == result.read_version + 1
    assert [row for row in rows(table) if row[1] == "m"] == [(7001, "m", "mine")]


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.campaign), True], ids=["files", "vectors"])
def test_a_merge_reads_its_source_once_even_if_it_replans(spark, table, before_commit, tmp_path, vectors):
    """A winning commit inserts one of the keys, and the input file is deleted. The UDF still runs once for each row."""
    if vectors:
        table = tmp_path / "vectors"
        write_rows(spark, table, query_for(OLD_ROWS), properties={"delta.enableDeletionVectors": "true"})
    landing = tmp_path / "landing.csv"
    landing.write_text("".join(f"{number},n{number}\n" for number in (5, 105, 7000, 7001)))
    calls = spark.sparkContext.accumulator(0)

    def count_call(text):
        calls.add(1)
        return text

    spark.udf.register("counted", count_call)

    def delete_input_and_append():
        landing.unlink()
        write_rows(spark, table, values(NAMES, "7000, 'w', 'theirs'"), mode="append")

    before_commit(delete_input_and_append)
    file_count = len(data_files(table))
    result = merge_into(
        spark,
        table,
        "SELECT id, counted(note) AS note, 'n' AS day FROM landed",
        ON,
        sources={"landed": Source(format="csv", path=str(landing), schema="id INT, note STRING")},
        **UPSERT,
    )
    updated_rows = [(number, day, "old" if number == 1005 else f"n{number}") for number, day, _ in OLD_ROWS]
    assert rows(table) == sorted_rows([*updated_rows, (7000, "w", "n7000"), (7001, "n", "n7001")])
    assert result.version == result.read_version + 1 and calls.value == 4
    added_files = {file["path"] for file in actions_of(table, result.version)["add"]}
    assert file_count < len(data_files(table)) and added_files <= data_files(table)


def test_a_run_commits_once_even_if_no_row_matches(spark, table, tmp_path):
    landing = tmp_path / "landing.csv"
    sources = {"landed": Source(format="csv", path=str(landing), schema="id INT, day STRING, note STRING")}
    for run, csv_text, clauses in (
        ("changes", "5,a,new\n9000,a,new\n", UPSERT),
        ("no match", "9999,a,new\n", {"matched": UPSERT["matched"]}),
        ("empty source", "", {**UPSERT, "by_source": [{"delete": True, "condition": "id < 0"}]}),
    ):
        landing.write_text(csv_text)
        first_result = merge_into(spark, table, None, ON, sources=sources, run=run, **clauses)
        assert first_result.committed and not first_result.skipped
        landing.unlink()
        content_before = folder_content(table)
        second_result = merge_into(spark, table, None, ON, sources=sources, run=run, **clauses)
        assert second_result.skipped and not second_result.committed and second_result.version == first_result.version
        assert second_result.metrics == first_result.metrics and folder_content(table) == content_before
        actions = actions_of(table, first_result.version)
        assert actions["txn"]["appId"] == run
        assert bool(actions["add"]) is bool(actions["remove"]) is (run == "changes")
    version = DeltaTable(str(table)).version
    result = merge_into(spark, table, values(NAMES, "-1, 'a', 'n'"), ON, matched=UPSERT["matched"])
    assert (result.committed, result.version, result.read_version) == (False, version, version)
    assert DeltaTable(str(table)).version == version


CLAUSES = {
    "matched": [{"delete": True, "condition": "source.note = 'go'"}, {"update": {"note": "source.note"}}],
    "inserts": [{"insert": "*", "condition": "source.id > 0"}],
    "by_source": [
        {"update": {"note": "'stale'"}, "condition": "target.day = 'c' AND id < 100"},
        {"delete": True, "condition": "target.day = 'c' AND id > 1000"},
    ],
}
OPERATION_PARAMETERS = {
    "predicate": ["target.id = source.id AND target.day = source.day"],
    "matchedPredicates": [{"predicate": "source.note = 'go'", "actionType": "delete"}, {"actionType": "update"}],
    "notMatchedPredicates": [{"predicate": "source.id > 0", "actionType": "insert"}],
    "notMatchedBySourcePredicates": [
        {"predicate": "target.day = 'c' AND id < 100", "actionType": "update"},
        {"predicate": "target.day = 'c' AND id > 1000", "actionType": "delete"},
    ],
}


@pytest.mark.sample("vectors and feed")
@pytest.mark.parametrize("kind", ["files", "vectors and feed"])
def test_the_commit_info_has_the_operation_parameters_and_metrics_of_delta_spark(spark, tmp_path, kind):
    table = tmp_path / "t"
    features = ("delta.enableDeletionVectors", "delta.enableChangeDataFeed") if kind != "files" else ()
    write_rows(spark, table, query_for(OLD_ROWS).replace("SELECT", "SELECT /*+ COALESCE(1) */"), partition_by=("day",),
        properties=dict.fromkeys(features, "true"))  # fmt: skip
    source = values(NAMES, "5, 'a', 'go'", "105, 'a', 'new'", "7, 'b', 'new'", "-7, 'b', 'no'")
    result = merge_into(spark, table, source, f"{ON} AND target.day = source.day", **CLAUSES)
    info = actions_of(table, result.version)["commitInfo"]
    assert info["operation"] == "MERGE" and info["readVersion"] == 0 and info["isBlindAppend"] is False
    assert {name: json.loads(text) for name, text in info["operationParameters"].items()} == OPERATION_PARAMETERS
    metrics = {name: int(text) for name, text in info["operationMetrics"].items()}
    assert {name: number for name, number in result.metrics.items() if name in metrics} == metrics
    counts = {name: number for name, number in metrics.items() if "Bytes" not in name and not name.endswith("Ms")}
    has_vectors = kind != "files"
    assert counts == {
        "numSourceRows": 4,
        "numTargetRowsInserted": 1,
        "numTargetRowsUpdated": 2,
        "numTargetRowsDeleted": 2,
        "numTargetRowsMatchedUpdated": 1,
        "numTargetRowsMatchedDeleted": 1,
        "numTargetRowsNotMatchedBySourceUpdated": 1,
        "numTargetRowsNotMatchedBySourceDeleted": 1,
        "numTargetRowsCopied": 0 if has_vectors else 2,
        "numOutputRows": 3 if has_vectors else 5,
        "numTargetFilesAdded": 3,
        "numTargetFilesRemoved": 0 if has_vectors else 2,
        "numTargetChangeFilesAdded": 3 if has_vectors else 0,
        "numTargetDeletionVectorsAdded": 2 if has_vectors else 0,
        "numTargetDeletionVectorsRemoved": 0,
        "numTargetDeletionVectorsUpdated": 0,
    }
    assert {name for name in metrics if name.endswith("Ms")} >= {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"}
    assert metrics["numTargetBytesAdded"] > 0 and (metrics["numTargetBytesRemoved"] > 0) is not has_vectors
