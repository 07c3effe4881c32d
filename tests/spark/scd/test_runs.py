"""Runs of the SCD command: races, retries, incremental sources, schema changes, and runs that write nothing."""

from __future__ import annotations

import pytest

from deltalite.commands.table import define_table
from deltalite.errors import (
    AmbiguousRowsError,
    AuditFailedError,
    ConstraintViolationError,
    CorruptDataFileError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceGapError,
)
from deltalite.requests import Audit, TableRequest
from deltalite.spark.scd import changes
from tests.support.computed_rows import lose_computed_rows
from tests.support.flows import offsets, source_of
from tests.support.properties import FEED, VECTORS
from tests.support.racing import run_before_commits
from tests.support.scd import EVENT_OPTIONS, Event, apply_rows, model_of_history, query_of, visible_rows
from tests.support.tables import data_files, delete_rows, folder_content, rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

OPTIONS = {**EVENT_OPTIONS, "track": ("name",)}
BEGIN = [Event(1, 1, "a", "x"), Event(2, 1, "a", "x")]


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


@pytest.mark.campaign
def test_a_race_for_the_first_run_creates_one_table_with_the_rows_of_both(spark, table, monkeypatch):
    rival = [Event(1, 2, "b", "x"), Event(3, 1, "c", "x")]
    run_before_commits(monkeypatch, lambda: apply_rows(spark, table, query_of(rival), run="rival", **OPTIONS))
    result = apply_rows(spark, table, query_of(BEGIN), run="run", **OPTIONS)
    assert (result.version, visible_rows(table)) == (1, model_of_history([*BEGIN, *rival]))


RACES = {
    # No row of the table has the key. The two runs add rows with different values of `valid_from`.
    "new key": ([Event(9, 3, "b", "x")], [Event(9, 2, "a", "x")]),
    # This run repeats the name at sequence 5. The rival changes it at sequence 3.
    "repeated values": ([Event(1, 5, "a", "y")], [Event(1, 3, "b", "x")]),
    # The rival only adds an event to `_scd_events`.
    "hidden event": ([Event(1, 3, "b", "x")], [Event(1, 5, "a", "x")]),
}


@pytest.mark.campaign
@pytest.mark.parametrize(("events", "rival"), list(RACES.values()), ids=list(RACES))
def test_the_run_that_loses_a_race_computes_the_history_again(spark, table, monkeypatch, events, rival):
    apply_rows(spark, table, query_of(BEGIN), properties=VECTORS, **OPTIONS)
    run_before_commits(monkeypatch, lambda: apply_rows(spark, table, query_of(rival), run="rival", **OPTIONS))
    result = apply_rows(spark, table, query_of(events), run="run", **OPTIONS)
    assert (result.version, visible_rows(table)) == (2, model_of_history([*BEGIN, *rival, *events]))


def test_a_retry_finds_its_commit_and_a_cleared_run_applies_its_rows_again(spark, table):
    first = apply_rows(spark, table, query_of(BEGIN), run="one", **OPTIONS)
    assert (first.version, first.operation, first.metrics["numRowsOpened"]) == (0, "MERGE", 2)
    late = [Event(1, 0, "0", "x"), Event(2, 3, None, None, deletes=True)]
    second = apply_rows(spark, table, query_of(late), run="two", **OPTIONS)
    names = ("numKeys", "numRowsOpened", "numRowsClosed", "numLateRows", "numDuplicateRows")
    assert [second.metrics[name] for name in names] == [2, 1, 1, 1, 0]
    assert apply_rows(spark, table, query_of(late), run="two", **OPTIONS).skipped
    cleared = apply_rows(spark, table, query_of(late), run="two", generation=1, **OPTIONS)
    assert [cleared.metrics[name] for name in names] == [2, 0, 0, 0, 2]
    assert cleared.metrics["numOutputRows"] == 0 and cleared.committed
    assert visible_rows(table) == model_of_history([*BEGIN, *late])


@pytest.mark.campaign
def test_an_incremental_source_applies_each_change_once(spark, table, tmp_path):
    source = tmp_path / "source"
    write_rows(spark, source, values("id, name", "1, 'a'", "2, 'b'"), properties=FEED)
    options = {
        "sources": source_of(source, read="changes"),
        "sequence_by": "_commit_version",
        "delete_when": "_change_type = 'delete'",
        "exclude": ("_change_type", "_commit_version", "_commit_timestamp"),
        "track": ("name",),
    }
    query = """
        SELECT last.* FROM (
            SELECT max_by(struct(*), struct(_commit_version, _change_type <> 'delete')) AS last
            FROM source WHERE _change_type <> 'update_preimage' GROUP BY id, _commit_version
        )
    """
    first = apply_rows(spark, table, query, run="one", **options)
    assert (first.version, offsets(table)) == (0, {"flow": 0})
    update_rows(spark, source, {"name": "'B'"}, "id = 2")
    delete_rows(spark, source, "id = 1")
    apply_rows(spark, table, query, run="two", **options)
    assert offsets(table) == {"flow": 2}
    expected = [(1, "a", 0, 2, False), (2, "B", 1, None, True), (2, "b", 0, 1, False)]
    assert [row[:5] for row in rows(table)] == expected
    write_rows(spark, source, values("id, name", "2, 'C'"), mode="overwrite")  # deletes and inserts the key
    apply_rows(spark, table, query, run="three", **options)
    assert [row[:5] for row in rows(table)][1:] == [
        (2, "B", 1, 3, False),
        (2, "C", 3, None, True),
        (2, "b", 0, 1, False),
    ]
    fourth = apply_rows(spark, table, query, run="four", **options)
    assert (fourth.skipped, fourth.operation) == (True, "MERGE") and fourth.skip_reason
    source.rename(tmp_path / "source before")
    write_rows(spark, source, values("id, name", "2, 'new'"), properties=FEED)
    options["sources"] = source_of(source, read="changes", on_gap="reload")
    problem = r"up to version 3.*recreated.*newest version is 0.*would come before"
    with pytest.raises(SourceGapError, match=problem):
        apply_rows(spark, table, query, run="five", **options)
    aliased = query.replace("struct(*)", "struct(*, _commit_version AS seq)")
    options |= {"sequence_by": "seq", "exclude": (*options["exclude"], "seq")}
    with pytest.raises(SourceGapError, match=problem):
        apply_rows(spark, table, aliased, run="six", **options)


@pytest.mark.campaign
def test_a_repeated_row_stays_a_duplicate_after_the_first_untracked_column(spark, table):
    options = {"sequence_by": "seq", "exclude": ("seq",), "merge_schema": True, "track": ("name",)}
    old_rows = ("1, 'a', 1", "1, 'a', 2")
    apply_rows(spark, table, values("id, name, seq", *old_rows), **options)
    apply_rows(spark, table, values("id, name, note, seq", "5, 'z', 'n', 1"), **options)
    before = sorted(rows(table))
    with_null = values("id, name, note, seq", *(row.replace("'a'", "'a', CAST(NULL AS STRING)") for row in old_rows))
    again = apply_rows(spark, table, with_null, **options)
    assert (again.metrics["numDuplicateRows"], again.metrics["numRowsOpened"]) == (2, 0)
    assert [row[:5] for row in sorted(rows(table))] == [row[:5] for row in before]
    assert not apply_rows(spark, table, values("id, name, seq", *old_rows), **options).committed


@pytest.mark.campaign
@pytest.mark.parametrize("scd_type", [1, 2])
def test_texts_of_bounded_length_are_compared_as_the_table_stores_them(spark, table, scd_type):
    added = "valid_from INT, is_current BOOLEAN"
    if scd_type == 2:
        events = "ARRAY<STRUCT<sequence: INT, deleted: BOOLEAN, values: STRUCT<note: STRING>>>"
        added += f", valid_to INT, _scd_events {events}"
    schema = f"code CHAR(5), part VARCHAR(3), name CHAR(4), note CHAR(2), {added}"
    define_table(spark, TableRequest(table=str(table), schema=schema))
    options = {"keys": ("code", "part"), "sequence_by": "seq", "exclude": ("seq",), "scd_type": scd_type}
    if scd_type == 2:
        options["track"] = ("name",)
    batches = [(1, "n", 0), (1, "n", 1), (3, "n", 0), (2, "n ", 0), (3, "n  ", 1), (4, "m", 0)]
    for run, (sequence, name, duplicates) in enumerate(batches):
        query = values("code, part, name, note, seq", f"'ab', 'p    ', '{name}', 'x', {sequence}")
        result = apply_rows(spark, table, query, run=str(run), **options)
        assert result.metrics["numDuplicateRows"] == duplicates
    expected = [("ab   ", "p  ", "m   ", "x ", 4, True)]
    if scd_type == 2:
        expected = [(*expected[0], None), ("ab   ", "p  ", "n   ", "x ", 1, False, 4)]
    assert [row[:7] for row in rows(table)] == expected


@pytest.mark.campaign
@pytest.mark.parametrize("options", [{"scd_type": 1}, {"scd_type": 2, "track": ("name",)}], ids=["type 1", "type 2"])
def test_the_error_names_a_row_of_the_table_without_a_sequence(spark, table, options):
    options = EVENT_OPTIONS | options
    apply_rows(spark, table, query_of(BEGIN), **options)
    update_rows(spark, table, {"valid_from": "NULL"}, "id = 1")
    content = folder_content(table)
    with pytest.raises(ConstraintViolationError, match=r'no value in the column valid_from.*{"id":1}'):
        apply_rows(spark, table, query_of([Event(1, 2, "b", "x"), Event(2, 2, "b", "x")]), **options)
    assert folder_content(table) == content


@pytest.mark.campaign
def test_all_columns_are_tracked_by_default_except_those_of_the_sequence(spark, table):
    options = {"keys": ("id", "part"), "sequence_by": "to_date(day)", "partition_by": ("part",)}
    names = "id, part, name, day"
    apply_rows(spark, table, values(names, "1, 'p', 'a', '2026-01-01'", "1, 'q', 'a', '2026-01-01'"), **options)
    apply_rows(spark, table, values(names, "1, 'p', 'a', '2026-01-03'", "1, 'p', NULL, '2026-01-05'"), **options)
    history = [(part, name, day, str(start), end and str(end)) for _, part, name, day, start, end, *_ in rows(table)]
    assert sorted(history, key=repr) == [
        ("p", "a", "2026-01-03", "2026-01-01", "2026-01-05"),
        ("p", None, "2026-01-05", "2026-01-05", None),
        ("q", "a", "2026-01-01", "2026-01-01", None),
    ]


@pytest.mark.campaign
def test_a_corrected_row_replaces_the_row_of_its_sequence_on_request(spark, table):
    unchanged = [Event(1, 1, "a", "x"), Event(3, 1, "a", "x")]
    replaced = [Event(1, 3, "b", "x"), Event(2, 1, "a", "x"), Event(3, 3, "b", "x"), Event(4, 1, "a", "x")]
    apply_rows(spark, table, query_of([*unchanged, *replaced]), **OPTIONS)
    deleted = Event(4, 1, None, None, deletes=True)
    corrected = [Event(1, 3, "c", "x"), Event(2, 1, "a", "y"), Event(3, 3, "a", "z"), deleted]
    with pytest.raises(AmbiguousRowsError, match=r'rows of one key and one sequence differ.*"id":1,"valid_from":3'):
        apply_rows(spark, table, query_of(corrected), **OPTIONS)
    result = apply_rows(spark, table, query_of(corrected), on_same_sequence="replace", **OPTIONS)
    assert visible_rows(table) == model_of_history([*unchanged, *corrected])
    assert (result.metrics["numDuplicateRows"], result.metrics["numTargetRowsDeleted"]) == (0, 1)


@pytest.mark.campaign
def test_new_columns_join_the_history_with_merge_schema(spark, table):
    options = {"sequence_by": "seq", "exclude": ("seq",), "merge_schema": True, "track": ("name",)}
    apply_rows(spark, table, values("id, name, note, seq", "1, 'a', 'x', 1", "1, 'a', 'y', 2"), **options)
    query = values("id, name, note, unit, seq", "1, 'a', 'z', 'kg', 4", "1, 'b', 'z', 'kg', 3")
    apply_rows(spark, table, query, **options)
    apply_rows(spark, table, values("id, name, seq", "1, 'c', 5"), **options)
    by_start = sorted(rows(table), key=lambda row: row[3])
    assert [(row[1], row[2], row[-1]) for row in by_start] == [
        ("a", "y", None),
        ("b", "z", "kg"),
        ("a", "z", "kg"),
        ("c", None, None),
    ]


@pytest.mark.parametrize(
    ("query", "options", "error", "problem"),
    [
        (
            values("id, name, note, seq, op", "CAST(NULL AS INT), 'a', 'x', 1, 'U'"),
            {},
            ConstraintViolationError,
            "the source has 1 row with a null",
        ),
        (
            values("id, name, note, seq, op", "1, 'a', 'x', CAST(NULL AS INT), 'U'"),
            {},
            ConstraintViolationError,
            "null as sequence",
        ),
        (query_of([Event(5, 1, "a", "x"), Event(5, 1, "b", "x")]), {}, AmbiguousRowsError, '"id":5,"valid_from":1'),
        (query_of([Event(5, 1, "a", "x"), Event(5, 1, "a", "y")]), {}, AmbiguousRowsError, '"id":5'),
        (query_of([Event(1, 1, None, None, deletes=True)]), {}, AmbiguousRowsError, '"id":1'),
        (query_of(BEGIN), {"keys": ("key",)}, InvalidRequestError, "other keys"),
        (query_of(BEGIN), {"track": ("nam",)}, InvalidRequestError, "track names 'nam'"),
        (query_of(BEGIN), {"track": ("name", "note")}, InvalidRequestError, "'_scd_events' is"),
        (query_of(BEGIN), {"sequence_by": "seq > 1"}, InvalidRequestError, "no useful order"),
        (query_of(BEGIN), {"sequence_by": "rand()"}, InvalidRequestError, "not deterministic"),
        (query_of(BEGIN), {"delete_when": "op"}, InvalidRequestError, "not boolean"),
        (query_of(BEGIN), {"valid_to": "ended"}, InvalidRequestError, "not a history table.*no column ended"),
        (query_of(BEGIN), {"valid_to": "op", "exclude": ()}, InvalidRequestError, "the operation adds"),
        (query_of(BEGIN), {"exclude": ("op",)}, SchemaMismatchError, "does not have: seq"),
        (query_of(BEGIN), {"exclude": ("op", "seq", "note")}, SchemaMismatchError, "has no column note"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(spark, history, query, options, error, problem):
    content = folder_content(history)
    with pytest.raises(error, match=problem):
        apply_rows(spark, history, query, **{**OPTIONS, **options})
    assert folder_content(history) == content


@pytest.fixture(scope="module")
def history(spark, tmp_path_factory):
    """A table of type 2 that the tests of bad input do not change."""
    path = tmp_path_factory.mktemp("scd") / "t"
    apply_rows(spark, path, query_of(BEGIN), **OPTIONS)
    return path


def test_a_refused_first_run_creates_no_table(spark, table):
    with pytest.raises(AmbiguousRowsError):
        apply_rows(spark, table, query_of([*BEGIN, Event(1, 1, "b", "x")]), **OPTIONS)
    with pytest.raises(InvalidRequestError, match="keys names 'key'"):
        apply_rows(spark, table, query_of(BEGIN), **{**OPTIONS, "keys": ("key",)})
    assert not (table / "_delta_log").exists()


@pytest.mark.campaign
def test_audits_run_before_the_first_and_every_later_commit(spark, table):
    audits = (Audit(name="no null", rows="name IS NULL"),)
    with pytest.raises(AuditFailedError, match="measured 1 of 1 row,"):
        apply_rows(spark, table, query_of([Event(1, 1, None, "x")]), audits=audits, **OPTIONS)
    result = apply_rows(spark, table, query_of(BEGIN), audits=audits, **OPTIONS)
    assert [(audit.name, audit.passed) for audit in result.audits] == [("no null", True)]
    with pytest.raises(AuditFailedError, match="measured 1 of"):
        apply_rows(spark, table, query_of([Event(1, 2, None, "x")]), audits=audits, **OPTIONS)
    assert visible_rows(table) == model_of_history(BEGIN)


@pytest.mark.campaign
def test_maps_are_compared_by_their_entries_and_no_column_need_be_tracked(spark, table):
    options = {"sequence_by": "seq", "exclude": ("seq",)}
    one_map, same_map = "map('x', 1, 'y', 2)", "map('y', 2, 'x', 1)"
    for track in ("m",), ():
        path = table / f"{len(track)} tracked"
        apply_rows(spark, path, values("id, m, n, seq", f"1, {one_map}, {one_map}, 1"), track=track, **options)
        late_rows = [f"1, {same_map}, {same_map}, 1", f"1, {same_map}, map('x', 2), 2", "1, map('z', 3), NULL, 3"]
        result = apply_rows(spark, path, values("id, m, n, seq", *late_rows), track=track, **options)
        assert result.metrics["numDuplicateRows"] == 1
        ranges = sorted((row[3], row[4], None if row[2] is None else dict(row[2])) for row in rows(path))
        assert ranges == ([(1, 3, {"x": 2}), (3, None, None)] if track else [(1, None, None)])


@pytest.mark.campaign
def test_an_unreadable_file_of_the_table_is_not_an_error_of_the_source(spark, table):
    apply_rows(spark, table, query_of(BEGIN), **OPTIONS)
    for path in data_files(table):
        (table / path).unlink()
    with pytest.raises(CorruptDataFileError):
        apply_rows(spark, table, query_of([Event(1, 3, "b", "x")]), **OPTIONS)


@pytest.mark.campaign
def test_a_run_whose_computed_changes_are_lost_computes_them_again(spark, table, monkeypatch):
    apply_rows(spark, table, query_of(BEGIN), **OPTIONS)
    losses = lose_computed_rows(spark, monkeypatch, changes, times=1)
    late = [Event(1, 3, "b", "x")]
    apply_rows(spark, table, query_of(late), **OPTIONS)
    assert len(losses) == 1 and visible_rows(table) == model_of_history([*BEGIN, *late])
