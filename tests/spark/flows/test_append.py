"""A write with an incremental source loads each version of the source once."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.commands.vacuum import vacuum
from deltalite.errors import (
    ChangeFeedUnavailableError,
    InvalidRequestError,
    SourceGapError,
    SourceRowsChangedError,
)
from deltalite.requests import RestoreRequest, RunIdentity, Source, TableRequest, VacuumRequest
from deltalite.results import FlowRange
from tests.support.flows import append_new, offsets, source_of, transactions_in, version_range
from tests.support.properties import FEED, VECTORS
from tests.support.racing import run_before_commits
from tests.support.selection import sampled
from tests.support.tables import (
    data_files,
    delete_rows,
    ids,
    optimize_table,
    rows,
    update_rows,
    values,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture(scope="module")
def source_template(spark, tmp_path_factory):
    """A table with the ids 1 and 2 in version 0."""
    path = tmp_path_factory.mktemp("template") / "source"
    add_ids(spark, path, 1, 2)
    return path


@pytest.fixture
def source(source_template, tmp_path):
    """A source table with the ids 1 and 2 in version 0."""
    return shutil.copytree(source_template, tmp_path / "source")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def add_ids(spark, path, *ids, **options):
    return write_rows(spark, path, values("id", *map(str, ids)), **options)


def committed_paths(table):
    return {add["path"] for file in (table / "_delta_log").glob("*.json") for add in added_in(file)}


def added_in(commit_file):
    actions = map(json.loads, commit_file.read_text().splitlines())
    return [action["add"] for action in actions if "add" in action]


def test_the_first_run_loads_the_snapshot_and_later_runs_load_new_versions(spark, source, target):
    add_ids(spark, source, 3)
    first = append_new(spark, target, source, run="run 1")
    assert (first.version, version_range(first), ids(target)) == (0, (None, 1), [1, 2, 3])
    add_ids(spark, source, 4)
    add_ids(spark, source, 5)
    second = append_new(spark, target, source, run="run 2")
    assert (second.version, version_range(second), ids(target)) == (1, (1, 3), [1, 2, 3, 4, 5])
    assert second.source_versions == {"source": 3}
    table_id = second.flows["source"].source_table_id
    assert transactions_in(target, 1) == {"run 2": 0, f"deltalite-flow/flow/{table_id}": 3}


def test_a_retry_returns_the_commit_of_its_run_and_a_clear_with_write_loads_newer_versions(spark, source, target):
    first = append_new(spark, target, source, run="run")
    add_ids(spark, source, 3)
    retry = append_new(spark, target, source, run="run")
    assert (retry.skipped, retry.version, retry.flows) == (True, 0, first.flows)
    assert ids(target) == [1, 2]
    clear = append_new(spark, target, source, run="run", on_rerun="write", generation=1)
    assert (clear.skipped, version_range(clear), ids(target)) == (False, (0, 1), [1, 2, 3])


def test_without_a_new_version_nothing_is_committed(spark, source, target):
    append_new(spark, target, source, run="run 1")
    second = append_new(spark, target, source, run="run 2")
    assert (second.skipped, second.committed, second.version, version_range(second)) == (True, False, 0, (0, 0))
    assert second.skip_reason.startswith(
        "The incremental sources have no new version: the flow 'flow' has loaded version 0"
    )
    assert not list(target.glob("_delta_log/*1.json")) and ids(target) == [1, 2]


def test_the_address_names_the_flow_by_default(spark, source, target):
    append_new(spark, target, source, flow=True)
    append_new(spark, target, f"file://{source}/", flow=True)
    assert (ids(target), offsets(target)) == ([1, 2], {str(source): 0})


def test_two_flows_of_one_source_are_independent(spark, source, target):
    append_new(spark, target, source, flow="a")
    append_new(spark, target, source, flow="b")
    assert (ids(target), offsets(target)) == ([1, 1, 2, 2], {"a": 0, "b": 0})


def test_a_task_with_several_sources_loads_the_new_versions_of_each(spark, source, tmp_path, target):
    other = tmp_path / "other"
    add_ids(spark, other, 10)
    two_sources = {
        "a": Source(format="delta", path=str(source), incremental=True),
        "b": Source(format="delta", path=str(other), incremental=True),
    }
    query = "SELECT id FROM a UNION ALL SELECT id FROM b"
    write_rows(spark, target, query, sources=two_sources)
    add_ids(spark, other, 11)
    second = write_rows(spark, target, query, sources=two_sources)
    assert (version_range(second, "a"), version_range(second, "b")) == ((0, 0), (0, 1))
    assert (ids(target), len(transactions_in(target, 1))) == ([1, 2, 10, 11], 1)
    assert write_rows(spark, target, query, sources=two_sources).skip_reason


@pytest.mark.sample("max_bytes")
@pytest.mark.parametrize("limit", ["max_versions", "max_bytes"])
def test_a_limit_ends_a_run_after_some_versions_but_never_before_the_first(spark, source, target, limit):
    append_new(spark, target, source)
    for number in (3, 4, 5):
        add_ids(spark, source, number)
    options = {limit: 1 if limit == "max_bytes" else 2}
    steps = [version_range(append_new(spark, target, source, options=options)) for _ in range(3)]
    assert steps == ([(0, 1), (1, 2), (2, 3)] if limit == "max_bytes" else [(0, 2), (2, 3), (3, 3)])
    assert ids(target) == [1, 2, 3, 4, 5]


def test_max_bytes_takes_the_versions_that_fit(spark, source, target):
    append_new(spark, target, source)
    add_ids(spark, source, 3)
    add_ids(spark, source, 4)
    add_ids(spark, source, 5)
    size = max((source / name).stat().st_size for name in data_files(source))
    assert version_range(append_new(spark, target, source, options={"max_bytes": 2 * size})) == (0, 2)


def change_by_delete(spark, path):
    delete_rows(spark, path, "id = 1")


def change_by_update(spark, path):
    update_rows(spark, path, {"id": "id + 100"}, "id = 1")


CHANGES = {"a delete": change_by_delete, "an update": change_by_update}


@pytest.mark.parametrize("properties", sampled([{}, VECTORS, FEED], [FEED]), ids=["plain", "vectors", "feed"])
@pytest.mark.parametrize("change", CHANGES)
def test_appends_refuse_a_commit_that_changes_rows_or_leave_it_out(spark, tmp_path, target, change, properties):
    source = tmp_path / "source"
    one_file = values("id", "1", "2").replace("SELECT", "SELECT /*+ COALESCE(1) */")
    write_rows(spark, source, one_file, properties=properties)
    append_new(spark, target, source)
    add_ids(spark, source, 3)
    CHANGES[change](spark, source)
    add_ids(spark, source, 4)
    with pytest.raises(SourceRowsChangedError, match=r"Version 2 of .*read='changes'.*on_change='skip'"):
        append_new(spark, target, source)
    assert ids(target) == [1, 2]
    assert version_range(append_new(spark, target, source, options={"on_change": "skip"})) == (0, 3)
    assert ids(target) == [1, 2, 3, 4]


def test_a_restore_of_the_source_is_not_an_append(spark, source, target):
    add_ids(spark, source, 3)
    delete_rows(spark, source, "id >= 0")
    append_new(spark, target, source)
    restore(spark, RestoreRequest(table=str(source), version=1))
    with pytest.raises(SourceRowsChangedError, match=r"Version 3 .*RESTORE"):
        append_new(spark, target, source)


def test_an_optimize_of_the_source_loads_no_row_again(spark, source, target):
    append_new(spark, target, source)
    add_ids(spark, source, 3)
    assert optimize_table(spark, source).committed
    assert version_range(append_new(spark, target, source)) == (0, 2)
    assert ids(target) == [1, 2, 3]


def test_changes_begin_with_inserts_of_the_snapshot(spark, tmp_path, target):
    source = tmp_path / "source"
    add_ids(spark, source, 1, 2, properties=FEED)
    query = "SELECT id, _change_type, _commit_version, _commit_timestamp IS NOT NULL AS has_time FROM source"
    options = {"query": query, "sources": source_of(source, read="changes")}
    write_rows(spark, target, **options)
    assert rows(target) == [(1, "insert", 0, True), (2, "insert", 0, True)]
    update_rows(spark, source, {"id": "20"}, "id = 2")
    delete_rows(spark, source, "id = 1")
    assert version_range(write_rows(spark, target, **options)) == (0, 2)
    assert set(rows(target)) == {
        (1, "insert", 0, True),
        (2, "insert", 0, True),
        (2, "update_preimage", 1, True),
        (20, "update_postimage", 1, True),
        (1, "delete", 2, True),
    }
    assert len(rows(target)) == 5
    assert write_rows(spark, target, **options).skip_reason


def test_changes_need_a_change_feed_from_the_first_run_on(spark, source, target):
    with pytest.raises(ChangeFeedUnavailableError, match="needs the change data feed, which is off"):
        append_new(spark, target, source, options={"read": "changes"})
    assert not target.exists()


def drop_commits(path, below):
    for file in (path / "_delta_log").glob("*.json"):
        if file.stem.isdigit() and int(file.stem) < below:
            file.unlink()


def test_a_cleaned_log_is_a_gap(spark, tmp_path, target):
    source = tmp_path / "source"
    add_ids(spark, source, 1, properties={"delta.checkpointInterval": "3"})
    append_new(spark, target, source)
    for number in (2, 3, 4):
        add_ids(spark, source, number)
    drop_commits(source, 3)
    problem = r"'flow' has loaded .* up to version 0.*no longer holds version 1\. The earliest available version is 3\."
    with pytest.raises(SourceGapError, match=problem + ".*on_gap='reload'.*reset_flows"):
        append_new(spark, target, source)
    assert ids(target) == [1]
    reloaded = append_new(spark, target, source, options={"on_gap": "reload"})
    assert (version_range(reloaded), ids(target)) == ((None, 3), [1, 1, 2, 3, 4])
    add_ids(spark, source, 5)
    assert version_range(append_new(spark, target, source)) == (3, 4)


def lose_files_of_version_1(spark, path, read):
    """Commit a version 1 that adds the id 3, or updates 2 to 3 for `read` = "changes". Then delete its files."""
    if read == "changes":
        update_rows(spark, path, {"id": "3"}, "id = 2")
        for file in (path / "_change_data").rglob("*.parquet"):  # a vacuum keeps young change data files
            file.unlink()
    else:
        add_ids(spark, path, 3)
        optimize_table(spark, path)
        vacuum(spark, VacuumRequest(table=str(path), retention_hours=0, confirm_short_retention=path.name))


@pytest.mark.sample("changes")
@pytest.mark.parametrize("read", ["appends", "changes"])
def test_files_that_a_vacuum_has_deleted_are_a_gap(spark, tmp_path, target, read):
    source = tmp_path / "source"
    one_file = values("id", "1", "2").replace("SELECT", "SELECT /*+ COALESCE(1) */")
    write_rows(spark, source, one_file, properties=FEED)
    append_new(spark, target, source, query="SELECT id FROM source", options={"read": read})
    lose_files_of_version_1(spark, source, read)
    add_ids(spark, source, 4)
    problem = r"up to version 0.*file of version 1 no longer exists.*earliest available version is 2"
    options = {"query": "SELECT id FROM source", "run": "run"}
    with pytest.raises(SourceGapError, match=problem) as error_info:
        append_new(spark, target, source, options={"read": read}, **options)
    assert "on_gap='reload'" in error_info.value.remedy and ids(target) == [1, 2]
    reloaded = append_new(spark, target, source, options={"read": read, "on_gap": "reload"}, **options)
    assert version_range(reloaded)[0] is None
    assert sorted(ids(target)) == sorted([1, 2, *([1, 2, 3, 4] if read == "appends" else [1, 3, 4])])
    assert append_new(spark, target, source, query=options["query"], options={"read": read}).skip_reason


def recreate(spark, path, *ids):
    path.rename(path.with_name(f"{path.name} before"))
    add_ids(spark, path, *ids)


def test_a_recreated_source_is_a_gap(spark, source, target):
    append_new(spark, target, source)
    recreate(spark, source, 7)
    add_ids(spark, source, 8)
    with pytest.raises(SourceGapError, match=r"up to version 0.*the source was recreated.*on_gap='reload'"):
        append_new(spark, target, source)
    reloaded = append_new(spark, target, source, options={"on_gap": "reload"})
    assert (version_range(reloaded), ids(target)) == ((None, 1), [1, 2, 7, 8])
    assert append_new(spark, target, source).skip_reason


def test_a_source_below_the_offset_is_a_gap(spark, source, target):
    add_ids(spark, source, 3)
    append_new(spark, target, source)
    (source / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(SourceGapError, match=r"up to version 1.*newest version of the source is 0"):
        append_new(spark, target, source)


def test_a_target_whose_transactions_expire_is_refused(spark, source, target):
    add_ids(spark, target, 9, properties={"delta.setTransactionRetentionDuration": "interval 30 days"})
    with pytest.raises(InvalidRequestError, match=r"setTransactionRetentionDuration.*other engines remove the offset"):
        append_new(spark, target, source)


def test_a_table_cannot_be_its_own_incremental_source(spark, source):
    with pytest.raises(InvalidRequestError, match=r"is the table .* itself"):
        append_new(spark, source, source)


def test_the_run_that_loses_a_race_loads_the_remaining_versions(spark, source, target, monkeypatch):
    append_new(spark, target, source)
    add_ids(spark, source, 3)

    def load_then_add():
        append_new(spark, target, source, run="rival")
        add_ids(spark, source, 4)

    run_before_commits(monkeypatch, load_then_add)
    result = append_new(spark, target, source, run="run")
    assert (version_range(result), result.version, ids(target)) == ((1, 2), 2, [1, 2, 3, 4])


@pytest.mark.parametrize("is_first", [True, False], ids=["the first run", "a later run"])
def test_the_run_that_loses_a_race_commits_nothing_if_no_version_remains(spark, source, target, monkeypatch, is_first):
    if not is_first:
        append_new(spark, target, source)
        add_ids(spark, source, 3)
    run_before_commits(monkeypatch, lambda: append_new(spark, target, source, run="rival"))
    result = append_new(spark, target, source, run="run")
    assert result.skip_reason and result.skipped
    assert ids(target) == ([1, 2] if is_first else [1, 2, 3])
    assert not [name for name in os.listdir(target) if name.startswith("_deltalite")]
    assert len(data_files(target)) == len(committed_paths(target))


def test_an_append_of_another_task_does_not_make_the_run_replan(spark, source, target, monkeypatch):
    append_new(spark, target, source)
    add_ids(spark, source, 3)
    run_before_commits(monkeypatch, lambda: add_ids(spark, target, 50))
    result = append_new(spark, target, source, conflict_retries=0)
    assert (version_range(result), result.read_version, result.version) == ((0, 1), 0, 2)


def test_a_restore_of_the_target_puts_the_offsets_back(spark, source, target):
    add_ids(spark, target, 0)
    append_new(spark, target, source)
    add_ids(spark, source, 3)
    append_new(spark, target, source)
    restore(spark, RestoreRequest(table=str(target), version=1))
    assert (ids(target), offsets(target)) == ([0, 1, 2], {"flow": 0})
    append_new(spark, target, source)
    assert ids(target) == [0, 1, 2, 3]
    restore(spark, RestoreRequest(table=str(target), version=0))
    assert (ids(target), offsets(target)) == ([0], {"flow": -1})
    assert version_range(append_new(spark, target, source)) == (None, 1)
    assert ids(target) == [0, 1, 2, 3]


def test_a_reset_sets_the_offset_in_a_commit(spark, source, target):
    append_new(spark, target, source)
    add_ids(spark, source, 3)
    append_new(spark, target, source)
    reset = TableRequest(table=str(target), reset_flows={"flow": 0}, identity=RunIdentity(app_id="reset"))
    result = define_table(spark, reset)
    assert (result.operation, result.version, result.committed, offsets(target)) == (
        "ALTER TABLE",
        2,
        True,
        {"flow": 0},
    )
    assert define_table(spark, reset).skipped
    assert version_range(append_new(spark, target, source)) == (0, 1)
    define_table(spark, TableRequest(table=str(target), reset_flows={"flow": None}))
    assert offsets(target) == {"flow": -1}
    assert version_range(append_new(spark, target, source)) == (None, 1)
    with pytest.raises(InvalidRequestError, match="has no offset of it"):
        define_table(spark, TableRequest(table=str(target), reset_flows={"flows": None}))


def test_new_columns_of_the_source_are_loaded(spark, source, target):
    append_new(spark, target, source)
    write_rows(spark, source, values("id, name", "3, 'x'"), merge_schema=True)
    append_new(spark, target, source, merge_schema=True)
    assert rows(target) == [(1, None), (2, None), (3, "x")]


def test_the_result_names_the_loaded_versions(spark, source, target):
    result = append_new(spark, target, source, flow="orders")
    (flow_range,) = result.flows.values()
    table_id = flow_range.source_table_id
    assert flow_range == FlowRange(flow="orders", source_table_id=table_id, after_version=None, to_version=0)
    assert result.as_dict()["flows"]["source"] == {
        "flow": "orders", "source_table_id": table_id, "after_version": None, "to_version": 0,
    }  # fmt: skip
