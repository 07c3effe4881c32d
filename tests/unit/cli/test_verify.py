"""`deltalite verify` has no findings for a valid table, and the expected finding for each kind of damage."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.cli.main import main
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.errors import StorageError, TableNotFoundError, UnsupportedFeatureError
from deltalite.inspection import findings as findings_module
from deltalite.inspection.findings import Finding, FindingKind, Findings, Severity
from deltalite.inspection.verify import verify
from deltalite.inspection.versions import contains, format_ranges, ranges_of, union, without
from deltalite.protocol.file_names import LAST_CHECKPOINT, checkpoint_name, checksum_name, commit_name, compaction_name
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from tests.support.valid_table import create_valid_table, edit_commit, edit_stats, log_files, path_of, rewrite
from tests.unit.builders import NOON_MS, load

FILE_A, FILE_B, FILE_C = (f"day=2026-01-01/{name}.parquet" for name in "abc")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return create_valid_table(tmp_path_factory.mktemp("valid") / "table")


@pytest.fixture
def valid_table(original, tmp_path):
    """A copy of the original table. A test may damage it."""
    shutil.copytree(original.root, tmp_path / "t")
    return LocalLogStore(str(tmp_path / "t"))


def run(capsys, *argv):
    """Run a command; returns its exit code, its output and its error output."""
    code = main(argv)
    out, err = capsys.readouterr()
    return code, out, err


def verify_as_json(capsys, store, *options):
    """Run `verify --json`; returns the exit code and the parsed report."""
    code, out, err = run(capsys, "verify", store.root, "--json", *options)
    assert err == ""
    return code, json.loads(out)


def findings_in(report):
    return {(f["kind"], f["file"], format_ranges(f["versions"])) for f in report["findings"]}


def test_a_valid_table_has_no_findings_and_all_versions_are_readable(valid_table, capsys):
    code, report = verify_as_json(capsys, valid_table)
    assert (code, report["ok"], report["findings"]) == (0, True, [])
    assert report["readable"] == report["rebuildable"] == [[0, 5]]
    checked = {"commits": 6, "checkpoints": 1, "compactions": 1, "checksums": 6, "files": 4, "footers": 4}
    assert checked.items() <= report["checked"].items()
    assert (report["newestVersion"], report["checked"]["deletionVectors"]) == (5, 1)
    code, out, _ = run(capsys, "verify", valid_table.root)
    assert code == 0 and "no findings" in out and "0-5" in out


def flip_byte(store, name, position=-20):
    """Change one byte of a file."""
    path = path_of(store, name)
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


# These three functions return a function that damages the table in a store.


def shorten(name):
    return lambda store: path_of(store, name).write_bytes(path_of(store, name).read_bytes()[:-1])


def overwrite(name):
    return lambda store: path_of(store, name).write_bytes(b"x" * path_of(store, name).stat().st_size)


def delete_files(*files):
    return lambda store: [path_of(store, name).unlink() for name in files]


def vector_file(store):
    [path] = path_of(store, "").glob("deletion_vector_*.bin")
    return path.name


def change_checkpoint(change):
    """Return a function that rewrites the checkpoint with changed rows, like a faulty writer."""

    def damage(store):
        path = path_of(store, checkpoint_name(1))
        table = pq.read_table(path)
        rows = table.to_pylist(maps_as_pydicts="strict")
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)

    return damage


def drop_an_add(rows):
    rows.remove(next(row for row in rows if row["add"] is not None and row["add"]["path"] == FILE_B))


def change_size(rows):
    next(row for row in rows if row["add"] is not None and row["add"]["path"] == FILE_B)["add"]["size"] = 7


def change_protocol(rows):
    next(row for row in rows if row["protocol"] is not None)["protocol"]["writerFeatures"].append("appendOnly")


def change_schema(rows):
    next(row for row in rows if row["metaData"] is not None)["metaData"]["schemaString"] = "{"


def truncate_statistics(body):
    body["stats"] = '{"numRecords": '


# These three functions also return a function that damages the table in a store.


def change_statistics(version, change):
    return lambda store: edit_commit(store, version, "add", edit_stats(change))


def change_action(version, kind, change):
    return lambda store: edit_commit(store, version, kind, change)


def replace_text(name, old, new):
    return lambda store: rewrite(store, name, lambda content: content.replace(old, new))


def set_statistic(mapping, key, value):
    return lambda stats: stats[mapping].update({key: value})


DAMAGES = [
    ("missing-commit", delete_files(commit_name(3)), [None], ["3"]),
    ("unreadable-commit", replace_text(commit_name(4), '{"add"', '{"add'), [commit_name(4)], ["4"]),
    ("unreadable-commit", change_action(4, "add", lambda body: body.pop("path")), [commit_name(4)], ["4"]),
    ("unreadable-commit", change_action(4, "add", lambda body: body.update(size=2**70)), [commit_name(4)], ["4"]),
    ("unreadable-version", delete_files(commit_name(3), commit_name(4), compaction_name(2, 4)), [None], ["3-5"]),
    ("unreadable-checkpoint", lambda store: flip_byte(store, checkpoint_name(1)), [checkpoint_name(1)], ["1"]),
    ("checkpoint-differs", change_checkpoint(drop_an_add), [checkpoint_name(1)], ["1"]),
    ("checkpoint-differs", change_checkpoint(change_size), [checkpoint_name(1)], ["1"]),
    ("checkpoint-differs", change_checkpoint(change_protocol), [checkpoint_name(1)], ["1"]),
    ("checkpoint-differs", change_checkpoint(change_schema), [checkpoint_name(1)], ["1"]),
    ("compaction-differs", replace_text(compaction_name(2, 4), "c.parquet", "d.parquet"), [compaction_name(2, 4)] * 2,
     ["2-4"]),
    ("compaction-differs", replace_text(compaction_name(2, 4), '{"add"', '{"add'), [compaction_name(2, 4)], ["2-4"]),
    ("unreadable-checksum", replace_text(checksum_name(4), '"numMetadata":1', '"numMetadata":2'), [checksum_name(4)],
     ["4"]),
    ("checksum-differs", replace_text(checksum_name(4), '"numFiles":2', '"numFiles":3'), [checksum_name(4)], ["4"]),
    ("checksum-differs", replace_text(checksum_name(0), '"tableSizeBytes":', '"tableSizeBytes":9'),
     [checksum_name(0)], ["0"]),
    (
        "checksum-differs",
        replace_text(checksum_name(5), '"numDeletedRecordsOpt":1', '"numDeletedRecordsOpt":2'),
        [checksum_name(5)],
        ["5"],
    ),
    ("checksum-differs", replace_text(checksum_name(1), "changeDataFeed", "appendOnly"), [checksum_name(1)], ["1"]),
    ("last-checkpoint", replace_text(LAST_CHECKPOINT, '"size":', '"size":1'), [LAST_CHECKPOINT], ["none"]),
    ("last-checkpoint", delete_files(checkpoint_name(1)), [LAST_CHECKPOINT], ["none"]),
    ("missing-file", delete_files(FILE_C), [FILE_C], ["4-5"]),
    ("unreadable-file", overwrite(FILE_C), [FILE_C], ["4-5"]),
    ("wrong-size", shorten(FILE_B), [FILE_B, FILE_B], ["1-2", "3-5"]),
    ("wrong-statistics", change_statistics(4, lambda statistics: statistics.update(numRecords=3)), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_statistics(4, set_statistic("minValues", "id", 7)), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_statistics(4, set_statistic("maxValues", "id", 6)), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_statistics(4, set_statistic("minValues", "name", "b")), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_statistics(4, set_statistic("maxValues", "name", "az")), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_statistics(4, set_statistic("nullCount", "name", 1)), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_statistics(4, set_statistic("minValues", "id", 8)), [FILE_C], ["4-5"]),
    ("wrong-statistics", change_action(4, "add", truncate_statistics), [FILE_C], ["4-5"]),
    (
        "wrong-partition-value",
        change_action(4, "add", lambda body: body.update(partitionValues={"day": "someday"})),
        [FILE_C],
        ["4-5"],
    ),
    ("wrong-partition-value", change_action(4, "add", lambda body: body.update(partitionValues={})), [FILE_C], ["4-5"]),
    ("bad-deletion-vector", lambda store: path_of(store, vector_file(store)).unlink(), [FILE_B], ["3-5"]),
    ("bad-deletion-vector", lambda store: flip_byte(store, vector_file(store), position=12), [FILE_B], ["3-5"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "damage", "files", "versions"), DAMAGES)
def test_each_damage_causes_a_finding_of_its_kind_with_file_and_versions(
    valid_table, capsys, kind, damage, files, versions
):
    damage(valid_table)
    code, report = verify_as_json(capsys, valid_table)
    findings_of_kind = [f for f in report["findings"] if f["kind"] == kind]
    assert [f["file"] for f in findings_of_kind] == files, report["findings"]
    assert sorted({format_ranges(f["versions"]) for f in findings_of_kind}) == versions
    severity = FindingKind(kind).severity
    assert {f["severity"] for f in findings_of_kind} == {severity.value}
    assert report["counts"][kind] == len(files)
    assert code == (3 if report["errors"] else 0)
    assert code == 3 or severity is Severity.WARNING


def test_every_kind_of_finding_has_a_damage_that_causes_it():
    kinds_tested_elsewhere = {FindingKind.COMMIT_TIME, FindingKind.UNCHECKED_FILES, FindingKind.WRONG_ROW_IDS}
    assert {FindingKind(kind) for kind, *_ in DAMAGES} | kinds_tested_elsewhere == set(FindingKind)


def test_a_missing_file_that_only_older_versions_need_causes_no_finding(valid_table, capsys):
    path_of(valid_table, FILE_A).unlink()
    code, report = verify_as_json(capsys, valid_table)
    assert (code, report["findings"]) == (0, [])
    assert (report["rebuildable"], report["readable"]) == ([[0, 5]], [[2, 5]])
    _, out, _ = run(capsys, "verify", valid_table.root)
    assert "2-5 (the log can rebuild 0-5)" in out


def test_versions_with_a_missing_file_are_not_readable(valid_table, capsys):
    path_of(valid_table, FILE_C).unlink()
    _, report = verify_as_json(capsys, valid_table)
    assert report["readable"] == [[0, 3]]


def test_a_cleaned_up_log_is_valid_from_its_checkpoint_on(valid_table, capsys):
    delete_files(commit_name(0), checksum_name(0))(valid_table)
    code, report = verify_as_json(capsys, valid_table)
    assert (code, report["findings"], report["rebuildable"]) == (0, [], [[1, 5]])


def test_a_checkpoint_after_a_gap_starts_the_readable_versions(valid_table, capsys):
    write_checkpoint(load(valid_table, 4), now_ms=NOON_MS)
    delete_files(commit_name(2), commit_name(3), compaction_name(2, 4))(valid_table)
    code, report = verify_as_json(capsys, valid_table)
    assert findings_in(report) == {("missing-commit", None, "2-3"), ("unreadable-version", None, "2-3")}
    assert (code, report["readable"]) == (3, [[0, 1], [4, 5]])


def test_a_wrong_checkpoint_is_one_finding_and_later_versions_are_compared_with_it(valid_table, capsys):
    change_checkpoint(drop_an_add)(valid_table)
    for name in log_files(valid_table, ".crc"):
        path_of(valid_table, name).unlink()
    delete_files(compaction_name(2, 4), commit_name(3))(valid_table)
    delete_files(commit_name(4), commit_name(5))(valid_table)
    write_checkpoint(load(valid_table, 2), now_ms=NOON_MS)
    write_checksum(load(valid_table, 2))
    _, report = verify_as_json(capsys, valid_table)
    assert findings_in(report) == {("checkpoint-differs", checkpoint_name(1), "1")}


def test_a_check_without_footers_looks_for_files_and_does_not_open_them(valid_table, capsys):
    change_statistics(4, lambda statistics: statistics.update(numRecords=3))(valid_table)
    delete_files(FILE_B)(valid_table)
    code, report = verify_as_json(capsys, valid_table, "--no-footers")
    assert findings_in(report) == {("missing-file", FILE_B, "3-5")}
    assert (code, report["checked"]["footers"], report["checked"]["files"]) == (3, 0, 4)


def set_commit_times(store, *times):
    """Enable in-commit timestamps and set the timestamp of each commit. None leaves a commit without a timestamp."""
    enabled = {"delta.enableInCommitTimestamps": "true"}
    edit_commit(store, 0, "metaData", lambda body: body.update(configuration=enabled))
    edit_commit(store, 0, "protocol", lambda body: body["writerFeatures"].append("inCommitTimestamp"))
    for version, time in enumerate(times):
        edit_commit(store, version, "commitInfo", lambda body, t=time: body.update({"inCommitTimestamp": t, "x": 1}))
    for name in [*log_files(store, ".crc"), checkpoint_name(1), LAST_CHECKPOINT]:
        path_of(store, name).unlink()


@pytest.mark.parametrize(
    ("times", "wrong_versions"),
    [((10, 20, 30, 40, 50, 60), set()), ((10, 20, 20, 40, 35, 60), {"2", "4"}), ((10, None, 30, 40, 50, 60), {"1"})],
)
def test_in_commit_timestamps_must_increase(valid_table, capsys, times, wrong_versions):
    set_commit_times(valid_table, *times)
    _, report = verify_as_json(capsys, valid_table)
    assert findings_in(report) == {("commit-time", commit_name(int(version)), version) for version in wrong_versions}


def test_files_on_unreachable_storage_are_reported_as_unchecked(valid_table, capsys):
    edit_commit(valid_table, 4, "add", lambda body: body.update(path="s3://elsewhere/c.parquet"))
    delete_files(compaction_name(2, 4))(valid_table)
    code, report = verify_as_json(capsys, valid_table)
    assert (code, findings_in(report)) == (0, {("unchecked-files", "s3://elsewhere", "none")})


def set_wide_bounds(name, nulls):
    """Return a function that sets wide bounds, as after a deletion, and the null count of a column."""
    return lambda stats: stats.update(tightBounds=False, nullCount={**stats["nullCount"], name: nulls})


@pytest.mark.parametrize(
    ("version", "file", "versions", "wrong_count", "true_count"),
    [(0, FILE_A, "0-1", 0, 1), (4, FILE_C, "4-5", 2, 0)],
    ids=["zero", "all-records"],
)
def test_with_wide_bounds_a_null_count_of_zero_or_of_all_records_must_be_exact(
    valid_table, capsys, version, file, versions, wrong_count, true_count
):
    for name in (*log_files(valid_table, ".crc"), checkpoint_name(1), LAST_CHECKPOINT, compaction_name(2, 4)):
        path_of(valid_table, name).unlink()
    change_statistics(4, set_wide_bounds("name", 1))(valid_table)
    assert verify_as_json(capsys, valid_table)[1]["findings"] == []
    change_statistics(version, set_wide_bounds("name", wrong_count))(valid_table)
    _, report = verify_as_json(capsys, valid_table)
    assert findings_in(report) == {("wrong-statistics", file, versions)}
    expected_text = f"count {wrong_count} nulls in column 'name', but the file contains {true_count}"
    assert expected_text in report["findings"][0]["message"]


def test_a_file_that_is_removed_and_added_in_one_commit_stays_active(valid_table, capsys):
    rewrite(valid_table, commit_name(5), lambda content: content + lines_that_remove_and_add(valid_table))
    for name in (checksum_name(5), FILE_C):
        path_of(valid_table, name).unlink()
    write_checksum(load(valid_table, 5), count_all=True)
    _, report = verify_as_json(capsys, valid_table)
    assert findings_in(report) == {("missing-file", FILE_C, "4-5")}


def lines_that_remove_and_add(store):
    """The lines of a commit that removes and adds the file that commit 4 added."""
    [line] = [line for line in path_of(store, commit_name(4)).read_text().splitlines() if line.startswith('{"add"')]
    body = json.loads(line)["add"]
    remove_body = {"path": body["path"], "dataChange": False, "deletionTimestamp": NOON_MS}
    return f"{json.dumps({'remove': remove_body})}\n{line}\n"


def test_a_vector_with_rows_beyond_its_file_causes_a_finding(valid_table, capsys):
    [vector_beyond_file] = write_vectors(valid_table, [pa.array([3], pa.int64())])
    edit_commit(valid_table, 3, "add", lambda body: body.update(deletionVector=vector_beyond_file))
    path_of(valid_table, compaction_name(2, 4)).unlink()
    _, report = verify_as_json(capsys, valid_table)
    assert findings_in(report) == {("bad-deletion-vector", FILE_B, "3-5")}
    assert (
        "removes the row at index 3 (counted from 0), but the file contains only 3 rows"
        in report["findings"][0]["message"]
    )


def test_findings_are_shown_with_their_files_and_messages(valid_table, capsys):
    delete_files(FILE_C)(valid_table)
    code, out, _ = run(capsys, "verify", valid_table.root)
    assert code == 3
    assert f"error missing-file, versions 4-5: {FILE_C}\n  The data file does not exist.\n" in out
    assert "1 error, 0 warnings" in out


def test_a_missing_or_unsupported_table_raises_a_typed_error(valid_table, tmp_path, capsys):
    code, out, err = run(capsys, "verify", str(tmp_path / "nowhere"))
    assert (code, out) == (TableNotFoundError.exit_code, "") and "TableNotFoundError" in err
    edit_commit(valid_table, 0, "protocol", lambda body: body["readerFeatures"].append("laterFeature"))
    path_of(valid_table, checkpoint_name(1)).unlink()
    code, _, err = run(capsys, "verify", valid_table.root)
    assert code == UnsupportedFeatureError.exit_code and "laterFeature" in err


def test_a_storage_failure_raises_an_error_and_is_not_a_finding(valid_table, monkeypatch):
    read = LocalLogStore.read

    def fail(self, name):
        if name == commit_name(3):
            raise StorageError("It did not answer.", remedy="Try again.")
        return read(self, name)

    monkeypatch.setattr(LocalLogStore, "read", fail)
    with pytest.raises(StorageError):
        verify(valid_table)


def test_progress_is_reported_for_each_step(valid_table):
    steps = {}
    verify(valid_table, progress=lambda step, done, total: steps.setdefault(step, []).append((done, total)))
    assert steps["commits"] == [(n, 6) for n in range(6)]
    assert {"checkpoints", "checkpoints against commits", "data files", "checksums"} < steps.keys()
    assert steps["data files"][-1] == (4, None)


def test_a_limited_number_of_findings_of_a_kind_is_kept_and_all_are_counted(monkeypatch):
    monkeypatch.setattr(findings_module, "MAX_FINDINGS_OF_A_KIND", 2)
    findings = Findings()
    for number in range(5):
        findings.add(Finding(kind=FindingKind.WRONG_SIZE, message=str(number)))
    assert [f.message for f in findings.stored] == ["0", "1"] and findings.counts == {FindingKind.WRONG_SIZE: 5}


def test_version_numbers_are_shown_as_ranges():
    assert ranges_of([3, 0, 1, 5, 4]) == ((0, 1), (3, 5))
    assert union([(4, 6), (0, 1), (2, 2), (5, 9)]) == ((0, 2), (4, 9))
    assert without([(0, 9)], [(0, 0), (3, 4), (9, 12)]) == ((1, 2), (5, 8))
    assert without([(2, 3)], [(0, 9)]) == ()
    assert (format_ranges([(0, 1), (3, 3)]), format_ranges([])) == ("0-1, 3", "none")
    assert contains([(1, 2)], 2) and not contains([(1, 2)], 3)
