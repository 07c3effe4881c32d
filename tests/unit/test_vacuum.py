"""Vacuum of tables on a disk, without Spark: what goes, what stays, and what is refused before anything is lost."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.commands import vacuum as command
from deltalite.commands.vacuum import vacuum
from deltalite.errors import (
    CorruptLogError,
    DeltaLiteError,
    InvalidRequestError,
    StorageError,
    StoragePermissionError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltalite.protocol.file_names import LAST_VACUUM, LOG_DIR, commit_name
from deltalite.protocol.properties import HOUR_MS
from deltalite.requests import RunIdentity, VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.fsspec_store import FsspecLogStore
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.opening import listed_tree, open_store
from deltalite.storage.trees import Deletion
from deltalite.upkeep.vacuum import full_plan
from deltalite.upkeep.vacuum_rules import retention_of
from tests.support.table_history import DAYS, TableHistory
from tests.support.tables import commit, everything

WEEK_H = 7 * 24
OLD_H = WEEK_H + 1


@pytest.fixture
def history(tmp_path) -> TableHistory:
    return TableHistory(tmp_path / "orders", {"delta.enableChangeDataFeed": "true"})


def run(history, **options):
    """A vacuum at the history's time; its commits carry that time."""
    result = vacuum(None, VacuumRequest(table=str(history.folder), **options), clock_ms=lambda: history.now_ms)
    history.committed_by_others()
    return result


def short(hours):
    return {"retention_hours": hours, "confirm_short_retention": "orders"}


def gone(history, **options):
    """What a vacuum takes away."""
    before = history.files()
    run(history, **options)
    return before - history.files()


def put(history, name, *, age_hours=OLD_H, content=b"x"):
    """A file of any kind, so old."""
    file = history.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    then = history.now_ms / 1000 - age_hours * 3600
    os.utime(file, (then, then))
    return name


def named(history, path, **more):
    """Commit the `add` of a file by this path."""
    body = {"path": path, "partitionValues": {"day": "x"}, "size": 1, "modificationTime": 1, "dataChange": True}
    history._commit([{"add": body | more}], history.live)


def test_a_removed_file_goes_when_the_retention_has_passed_since_its_removal(history):
    history.append(lag_hours=1000)
    first = history.files()
    history.wait(1000)
    history.replace(None)
    history.wait(WEEK_H - 1)
    assert gone(history) == set(), "the file is old, and its removal is not"
    history.wait(2)
    assert gone(history) == first
    assert history.read()[len(history.states) - 1][0] == history.rows_of(2)


def test_a_remove_without_a_time_counts_from_its_commit(history):
    history.append()
    history.wait(WEEK_H)
    history.replace(None, dated=False)
    history.wait(30)
    assert gone(history) == set()
    history.wait(WEEK_H)
    assert len(gone(history)) == 1


def test_a_longer_retention_is_honoured_where_a_checkpoint_has_forgotten_the_removal(history):
    history.append()
    history.replace(None)
    history.wait(20 * 24)
    history.checkpoint()
    history.append()
    assert gone(history, retention_hours=60 * 24) == set()
    assert history.read()[1][0] == history.rows_of(1)
    assert len(gone(history)) == 1


def test_change_files_go_with_the_retention_and_not_by_the_time_of_a_slow_job(history):
    history.append()
    history.change(lag_hours=OLD_H)
    (cdc,) = [name for name in history.files() if name.startswith("_change_data/")]
    history.wait(48)
    assert cdc not in gone(history)
    assert history.read()[2][1] is not None
    history.wait(OLD_H)
    assert cdc in gone(history)
    assert not (history.folder / "_change_data").exists(), "its folder was left empty"


def test_a_deletion_vector_stays_with_every_version_that_needs_it(history):
    history.append(2)
    history.mark()
    history.wait(OLD_H)
    history.mark()
    history.wait(24)
    before = history.read()
    assert gone(history) == set()
    assert history.read()[2] == before[2]
    history.wait(WEEK_H)
    (first,) = gone(history)
    assert first.startswith("deletion_vector_")
    assert history.read()[3][0] == before[3][0]


def test_a_file_that_no_version_names_goes_by_its_own_time_and_never_within_a_day(history):
    for age in (OLD_H, WEEK_H - 1, 25, 23):
        put(history, f"orphan {age}.parquet", age_hours=age)
    assert gone(history) == {f"orphan {OLD_H}.parquet"}
    assert gone(history, **short(0)) == {f"orphan {WEEK_H - 1}.parquet", "orphan 25.parquet"}


def test_a_file_written_again_under_the_name_of_a_removed_one_is_in_flight(history):
    history.append()
    (name,) = history.files()
    history.replace(None)
    history.wait(OLD_H)
    put(history, name, age_hours=1)
    assert gone(history) == set()
    put(history, name, age_hours=30)
    assert gone(history) == {name}


def test_hidden_names_stay_but_for_what_the_reference_sweeps(history):
    stays = ["_x/a.parquet", ".hidden", "_delta_log_x", "a/_b/c", "a/.c.crc", "_day=1/x", "_SUCCESS", "day=q/_x=1/f"]
    goes = ["_change_data/x", "_delta_index/y", "a/d", "day=q/_change_data/z", "metadata/v1.json"]
    temporary = ".deletion_vector_0.bin.00000000-0000-4000-8000-000000000000.tmp"
    for name in (*stays, *goes, temporary):
        put(history, name)
    assert gone(history) == {*goes, temporary}


def test_a_partition_column_may_begin_with_an_underscore(tmp_path):
    history = TableHistory(tmp_path / "orders")
    metadata = json.loads((history.folder / commit_name(0)).read_text().splitlines()[-1])["metaData"]
    schema = json.loads(metadata["schemaString"])
    schema["fields"].append({"name": "_p =q", "type": "string", "nullable": True, "metadata": {}})
    metadata |= {"partitionColumns": ["day", "_p =q"], "schemaString": json.dumps(schema)}
    history._commit([{"metaData": metadata}], {})
    put(history, "day=1/_p %3Dq=2/dead.parquet")
    put(history, "day=1/_other=2/kept.parquet")
    assert gone(history) == {"day=1/_p %3Dq=2/dead.parquet"}


def test_iceberg_metadata_stays_where_the_table_has_some(tmp_path):
    history = TableHistory(tmp_path / "orders", {"delta.universalFormat.enabledFormats": "iceberg"})
    put(history, "metadata/v1.json")
    assert gone(history) == set()


def test_staging_folders_of_killed_writes_go_as_a_whole_by_age(history):
    put(history, "_deltalite_staging/dead/0/_temporary/part.parquet")
    put(history, "_deltalite_staging/alive/0/part-1.parquet")
    put(history, "_deltalite_staging/alive/1/part-2.parquet", age_hours=1)
    age_folders(history)
    assert gone(history) == {"_deltalite_staging/dead/0/_temporary/part.parquet"}
    assert os.listdir(history.folder / "_deltalite_staging") == ["alive"]
    assert sorted(os.listdir(history.folder / "_deltalite_staging/alive")) == ["0", "1"]
    history.wait(WEEK_H)
    assert len(gone(history)) == 2
    assert not (history.folder / "_deltalite_staging").exists()


def age_folders(history, hours=OLD_H):
    then = history.now_ms / 1000 - hours * 3600
    for folder, _, _ in os.walk(history.folder):
        os.utime(folder, (then, then))


def test_folders_that_are_left_empty_go_and_young_empty_ones_stay(history):
    history.append(2)
    history.replace(DAYS[0])
    history._commit(history._removes([f for f in history.live.values() if "_c" in f.add["path"]]), {})
    (history.folder / "old/a/b").mkdir(parents=True)
    (history.folder / "with hidden").mkdir()
    put(history, "with hidden/.x")
    history.wait(OLD_H)
    age_folders(history)
    (history.folder / "young").mkdir()
    os.utime(history.folder / "young", (history.now_ms / 1000, history.now_ms / 1000))
    result = run(history)
    left = {entry.name for entry in history.folder.iterdir() if entry.is_dir()}
    assert left == {LOG_DIR, "day=a b", "with hidden", "young"}
    assert result.metrics["numDeletedDirectories"] == 4
    assert result.metrics["numVacuumedDirectories"] == 8, "all that were looked into, and the root"


def test_links_are_neither_followed_nor_deleted(history, tmp_path):
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "precious.parquet").write_bytes(b"x")
    os.utime(outside / "precious.parquet", (0, 0))
    (history.folder / "to a folder").symlink_to(outside)
    (history.folder / "to a file.parquet").symlink_to(outside / "precious.parquet")
    (history.folder / "to nothing").symlink_to(tmp_path / "nowhere")
    os.utime(history.folder / "to a file.parquet", (0, 0), follow_symlinks=False)
    history._commit(
        [{"remove": {"path": p, "dataChange": True, "deletionTimestamp": 1}}
         for p in ("to%20a%20folder/precious.parquet", "to%20a%20file.parquet", "../other/precious.parquet",
                   f"{outside}/precious.parquet", f"file://{outside}/precious.parquet")],
        {},
    )  # fmt: skip
    history.wait(OLD_H)
    age_folders(history)
    for options in ({"mode": "lite", **short(0)}, {}):
        run(history, **options)
        assert (outside / "precious.parquet").exists()
        assert {e.name for e in history.folder.iterdir() if e.is_symlink()} == {
            "to a folder", "to a file.parquet", "to nothing",
        }  # fmt: skip


def test_a_folder_that_became_a_link_after_the_listing_leads_nowhere(history, tmp_path):
    put(history, "a/f.parquet")
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "f.parquet").write_bytes(b"x")
    shutil.rmtree(history.folder / "a")
    (history.folder / "a").symlink_to(outside)
    tree = LocalTree(str(history.folder))
    assert tree.delete_files(["a/f.parquet"]) == Deletion()
    assert tree.remove_folder("a/b") is False
    assert (outside / "f.parquet").exists()


def test_a_table_inside_the_table_is_left_alone(history):
    inner = TableHistory(history.folder / "nested" / "t")
    inner.append()
    put(history, "nested/t/old.parquet")
    put(history, "nested/old.parquet")
    history.wait(OLD_H)
    assert gone(history) == {"nested/old.parquet"}


@pytest.mark.parametrize("spelled", ["{name}", "./{name}", "x/../{name}", "{root}/{name}", "file://{root}/{name}",
                                     "file:{root}/{name}", "../orders/{name}", "/elsewhere/{base}", "s3://b/t/{base}",
                                     "a//..//{name}"])  # fmt: skip
def test_a_live_file_stays_however_the_log_spells_it(history, spelled):
    name = put(history, "day=x/100%25 é+.parquet", age_hours=5000)
    path = spelled.format(name="day=x/100%2525%20%C3%A9+.parquet", root=history.folder, base="100%2525%20é+.parquet")
    named(history, path)
    put(history, "day=x/other.parquet")
    history.wait(OLD_H)
    assert gone(history) == {"day=x/other.parquet"}
    assert name in history.files()


def test_a_live_file_stays_where_its_writer_did_not_encode_its_path(history):
    name = put(history, "day=a%20b/f.parquet", age_hours=5000)
    named(history, name)
    history.wait(OLD_H)
    assert gone(history) == set()


def test_a_retention_shorter_than_the_tables_is_confirmed_by_the_tables_name(history):
    history.append()
    history.replace(None)
    history.wait(48)
    before = everything(history.folder)
    for options in ({}, {"dry_run": True}, {"mode": "lite"}):
        with pytest.raises(InvalidRequestError, match=r"shorter than the 168 hours.*confirm_short_retention='orders'"):
            run(history, retention_hours=24, **options)
    with pytest.raises(InvalidRequestError, match="names 'customers'"):
        run(history, retention_hours=24, confirm_short_retention="customers")
    assert everything(history.folder) == before
    assert len(gone(history, retention_hours=24, confirm_short_retention=str(history.folder))) == 1
    assert commit(history.folder, 3)["commitInfo"]["operationParameters"] == {
        "retentionCheckEnabled": False, "defaultRetentionMillis": WEEK_H * HOUR_MS,
        "specifiedRetentionMillis": 24 * HOUR_MS,
    }  # fmt: skip


def test_the_tables_own_retention_is_what_counts(tmp_path):
    history = TableHistory(tmp_path / "orders", {"delta.deletedFileRetentionDuration": "interval 2 days"})
    history.append()
    history.replace(None)
    history.wait(49)
    assert len(gone(history)) == 1
    with pytest.raises(InvalidRequestError, match="48 hours"):
        run(history, retention_hours=47)


def test_history_shows_start_and_end_with_the_references_names(history):
    history.append(2)
    size = sum(f.add["size"] for f in history.live.values())
    history._commit(history._removes(history.live.values()), {})
    history.wait(OLD_H)
    result = run(history, identity=RunIdentity(app_id="run", details={"dag_id": "d"}), user_metadata="why")
    start, end = (commit(history.folder, version)["commitInfo"] for version in (3, 4))
    assert (start["operation"], start["operationMetrics"]) == (
        "VACUUM START", {"numFilesToDelete": "2", "sizeOfDataToDelete": str(size)},
    )  # fmt: skip
    assert start["operationParameters"] == {"retentionCheckEnabled": True, "defaultRetentionMillis": WEEK_H * HOUR_MS}
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "COMPLETED"})
    assert (end["operationMetrics"]["numDeletedFiles"], end["operationMetrics"]["numVacuumedDirectories"]) == ("2", "3")
    assert "txn" not in commit(history.folder, 3) and commit(history.folder, 4)["txn"]["appId"] == "run"
    assert (result.operation, result.version, result.committed) == ("VACUUM END", 4, True)
    assert "why" in end["userMetadata"]


def test_a_retried_run_finds_its_end_and_deletes_nothing(history):
    done = run(history, identity=RunIdentity(app_id="run"))
    put(history, "orphan")
    again = run(history, identity=RunIdentity(app_id="run"))
    assert (again.skipped, again.version, again.metrics) == (True, done.version, done.metrics)
    assert "orphan" in history.files() and len(history.states) == 3


def test_a_dry_run_says_what_would_go_and_changes_nothing(history, caplog):
    history.append(2)
    history.replace(None)
    put(history, "big/a.parquet", content=b"x" * 3_000_000)
    put(history, "big/b.parquet")
    history.wait(OLD_H)
    caplog.set_level("INFO", "deltalite")
    before = everything(history.folder)
    result = run(history, dry_run=True, identity=RunIdentity(app_id="run"))
    assert everything(history.folder) == before
    assert (result.committed, result.version, result.metrics["numFilesToDelete"]) == (False, 2, 4)
    assert "2.9 MiB in 2 files of big" in caplog.text and "would delete big/a.parquet" in caplog.text
    assert len(gone(history)) == result.metrics["numFilesToDelete"]


def test_a_file_that_cannot_be_deleted_fails_the_vacuum_and_keeps_no_other(history, monkeypatch):
    for number in range(3):
        put(history, f"orphan {number}")
    real = os.unlink

    def refused(path, **options):
        if path == "orphan 1":
            raise PermissionError(13, "no", path)
        real(path, **options)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(StoragePermissionError, match=r"1 dead files.* 2 were"):
        run(history, identity=RunIdentity(app_id="run"))
    history.committed_by_others()
    assert history.files() == {"orphan 1"}
    assert commit(history.folder, 2)["commitInfo"]["operationParameters"] == {"status": "FAILED"}
    assert "txn" not in commit(history.folder, 2)
    assert not (history.folder / LAST_VACUUM).exists()
    monkeypatch.undo()
    assert run(history, identity=RunIdentity(app_id="run")).committed and history.files() == set()


def test_a_file_that_a_rival_brings_back_before_the_start_stays(history, monkeypatch):
    history.append()
    (old,) = history.live.values()
    history.replace(None)
    history.wait(OLD_H)
    real = command._planned

    def with_a_rival(*arguments):
        plan = real(*arguments)
        assert plan.files.num_rows == 1
        history._commit([{"add": old.add}], {**history.live, old.add["path"]: old})
        return plan

    monkeypatch.setattr(command, "_planned", with_a_rival)
    assert gone(history) == set()
    assert history.read()[3][0] == history.rows_of(3)


def test_commits_that_carry_their_times_are_as_old_as_they_say(tmp_path):
    """Their files, of a table that was copied, are new: going by these, every commit would be inside the retention."""
    history = TableHistory(tmp_path / "orders")
    first = (history.folder / commit_name(0)).read_text().splitlines()
    protocol, metadata = (json.loads(line) for line in first[1:])
    protocol["protocol"]["writerFeatures"].append("inCommitTimestamp")
    metadata["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "true"
    history.append()
    history.replace(None)
    for version, time_ms in enumerate(history.times):
        file = history.folder / commit_name(version)
        info, *rest = file.read_text().splitlines()
        stated = {"commitInfo": {"inCommitTimestamp": time_ms, **json.loads(info)["commitInfo"]}}
        rest = [json.dumps(protocol), json.dumps(metadata)] if version == 0 else rest
        file.write_text("".join(f"{line}\n" for line in (json.dumps(stated), *rest)))
    history.wait(WEEK_H - 1)
    assert gone(history, dry_run=True) == set() and run(history, dry_run=True).metrics["numFilesToDelete"] == 0
    history.wait(2)
    assert len(gone(history)) == 1
    assert history.read()[4][0] == history.rows_of(2)


def test_two_vacuums_at_once_delete_each_file_once(history):
    for number in range(300):
        put(history, f"a/{number}.parquet")
    asked = [VacuumRequest(table=str(history.folder), identity=RunIdentity(app_id=f"run {n}")) for n in range(2)]
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda one: vacuum(None, one, clock_ms=lambda: history.now_ms), asked))
    assert sum(one.metrics["numDeletedFiles"] for one in done) == 300
    assert sorted(one.committed for one in done) == [True, True] and history.files() == set()


def test_a_driver_whose_clock_runs_ahead_of_the_storages_deletes_nothing(history, monkeypatch):
    put(history, "orphan")
    real = command.now_ms
    monkeypatch.setattr(command, "now_ms", lambda: real() + 2 * HOUR_MS)
    with pytest.raises(StorageError, match=r"2\.0 hours ahead"):
        run(history)
    assert history.files() == {"orphan"}
    assert commit(history.folder, 2)["commitInfo"]["operationParameters"] == {"status": "FAILED"}


@pytest.mark.parametrize("kind", ["local", "fsspec"])
def test_a_plan_is_made_without_spark(history, kind):
    import fsspec

    history.append(2)
    history.replace(DAYS[0])
    dead = put(history, "a b/%41/old.parquet")
    put(history, "_hidden/old")
    history.wait(OLD_H)
    local = fsspec.filesystem("file")
    store = open_store(str(history.folder)) if kind == "local" else FsspecLogStore(str(history.folder), local)
    snapshot = Snapshot.load(store)
    retention = retention_of(snapshot.configuration, None, confirmed=False, now_ms=history.now_ms, table=store.root)
    plan = full_plan(snapshot, listed_tree(store), retention)
    expected = gone(history)
    assert set(plan.files["name"].to_pylist()) == expected and len(expected) == 2 and dead in expected
    assert plan.largest_folders(1)[0].name == "day=a b"


def test_a_lite_vacuum_deletes_what_commits_removed_since_the_last_one(history):
    history.append(2)
    history.mark()
    history.change()
    history.mark()
    history.replace(None)
    orphan = put(history, "orphan")
    live = {unquote(f.add["path"]) for f in history.live.values()}
    history.wait(OLD_H)
    run(history, mode="lite")
    assert history.files() == {orphan} | live
    assert json.loads((history.folder / LAST_VACUUM).read_text()) == {"latestCommitVersionOutsideOfRetentionWindow": 5}
    assert gone(history, mode="lite") == set()
    history.replace(None)
    history.wait(OLD_H)
    assert gone(history, mode="lite") == live


def test_a_lite_vacuum_touches_nothing_that_a_full_one_would_not(history):
    paths = ["_delta_log/00000000000000000000.json", "_x/f", "../outside", ".hidden", "", ".", "/", "a/../../x"]
    for path in ("_x/f", ".hidden"):
        put(history, path)
    (history.folder.parent / "outside").write_bytes(b"x")
    history._commit([{"remove": {"path": p, "dataChange": True, "deletionTimestamp": 1}} for p in paths], {})
    history.wait(OLD_H)
    before = everything(history.folder.parent)
    run(history, mode="lite")
    after = everything(history.folder.parent)
    assert {name: content for name, content in after.items() if name in before} == before


def test_a_lite_vacuum_is_refused_where_the_log_was_pruned_until_a_full_one_has_run(history):
    history.append()
    history.replace(None)
    history.wait(40 * 24)
    history.checkpoint()
    history.append()
    history.wait(OLD_H)
    history.clean()
    assert not (history.folder / commit_name(0)).exists()
    with pytest.raises(VersionNotFoundError, match=r"needs all commits.*begins with version 2"):
        run(history, mode="lite")
    run(history)
    history.replace(None)
    history.wait(OLD_H)
    assert len(gone(history, mode="lite")) == 2


def _damaged_commit(history):
    (history.folder / commit_name(2)).write_text('{"add": {"path": 7}}\n')


def _missing_commit(history):
    history.append()
    history.checkpoint()
    (history.folder / commit_name(2)).unlink()


def _unknown_feature(history):
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["fromTheFuture"]}
    history._commit([{"protocol": protocol}], history.live)


def _no_table(history):
    shutil.rmtree(history.folder / LOG_DIR)


def _bad_vector(history):
    vector = {"storageType": "u", "pathOrInlineDv": "?", "sizeInBytes": 1, "cardinality": 1}
    named(history, "x", deletionVector=vector)


def _bad_property(history):
    metadata = json.loads((history.folder / commit_name(0)).read_text().splitlines()[-1])["metaData"]
    metadata["configuration"]["delta.deletedFileRetentionDuration"] = "a while"
    history._commit([{"metaData": metadata}], history.live)


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (_damaged_commit, CorruptLogError, "path"),
        (_missing_commit, CorruptLogError, "lacks commit 2"),
        (_unknown_feature, UnsupportedFeatureError, "fromTheFuture"),
        (_no_table, TableNotFoundError, "no Delta table"),
        (_bad_vector, DeltaLiteError, "no uuid in Z85"),
        (_bad_property, InvalidRequestError, "deletedFileRetentionDuration"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_table_that_is_not_understood_is_never_vacuumed(history, damage, error, message, mode):
    history.append()
    history.replace(None)
    damage(history)
    put(history, "orphan")
    history.wait(24)
    before = everything(history.folder)
    for dry_run in (True, False):
        with pytest.raises(error, match=message):
            vacuum(
                None,
                VacuumRequest(table=str(history.folder), mode=mode, dry_run=dry_run),
                clock_ms=lambda: history.now_ms,
            )
    assert everything(history.folder) == before


def test_a_folder_that_cannot_be_listed_ends_the_vacuum_before_it_deletes(history, monkeypatch):
    put(history, "a/orphan")
    put(history, "b/orphan")
    real = LocalTree.list

    def refused(tree, folder):
        if folder == "b":
            raise StorageError("b is silent.", remedy="")
        return real(tree, folder)

    monkeypatch.setattr(LocalTree, "list", refused)
    before = everything(history.folder)
    with pytest.raises(StorageError, match="silent"):
        run(history)
    assert everything(history.folder) == before


def test_hadoops_checksum_goes_with_its_file(history):
    put(history, "a/f.parquet")
    put(history, "a/.f.parquet.crc")
    run(history)
    assert not (history.folder / "a").exists()


def test_a_name_that_is_no_text_is_left_alone(history):
    folder = os.fsencode(history.folder) + b"/a"
    os.mkdir(folder)
    Path(os.fsdecode(folder + b"/\xff.parquet")).write_bytes(b"x")
    os.utime(folder + b"/\xff.parquet", (0, 0))
    run(history)
    assert os.listdir(folder) == [b"\xff.parquet"]


def test_tables_of_other_engines_read_the_same_after(history):
    import deltalake

    deltalake.write_deltalake(str(history.folder / "t"), pa.table({"id": [1]}))
    deltalake.write_deltalake(str(history.folder / "t"), pa.table({"id": [2]}), mode="overwrite")
    vacuum(None, VacuumRequest(table=str(history.folder / "t"), retention_hours=0, confirm_short_retention="t"))
    assert pa.table(deltalake.DeltaTable(str(history.folder / "t")).to_pyarrow_table())["id"].to_pylist() == [2]
    assert [one["operation"] for one in DeltaTable(str(history.folder / "t")).history(limit=2)] == [
        "VACUUM END", "VACUUM START",
    ]  # fmt: skip
