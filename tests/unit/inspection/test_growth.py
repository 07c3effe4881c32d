"""The totals of the newest versions: they equal those of each version's snapshot, and unknown numbers stay unknown."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import CorruptLogError
from deltalite.inspection import growth
from deltalite.inspection.commit_effort import CommitEffort
from deltalite.inspection.diff import live_rows
from deltalite.inspection.growth import Totals, read_growth
from deltalite.log.file_table import bytes_of, deleted_rows_of
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, add, append_files, commit_actions, create, new_store, put_raw, remove


def totals_at(store, version=None):
    files = Snapshot.load(store, version).files
    return Totals(
        files=files.num_rows, size_bytes=bytes_of(files), rows=live_rows(files), deleted_rows=deleted_rows_of(files)
    )


def growth_of(store, **options):
    return read_growth(Snapshot.load(store), totals_at(store), **options)


def sized(path, rows, *, size_bytes=10, deleted=0, **changes):
    """An added file with its statistics and soft-deleted rows."""
    vector = {"storageType": "u", "pathOrInlineDv": f"v{deleted}", "sizeInBytes": 1, "cardinality": deleted}
    return add(
        path,
        size_bytes=size_bytes,
        stats=json.dumps({"numRecords": rows}),
        deletion_vector=vector if deleted else None,
        **changes,
    )


def removal_of(file, **changes):
    return remove(file.path, size_bytes=file.size_bytes, deletion_vector=file.deletion_vector, **changes)


def changed_table():
    """A table with an append, a deletion vector, an optimize, an overwrite and a re-added file."""
    store = create(new_store())
    first, second = sized("a", 100), sized("b", 50, size_bytes=7)
    with_vector = sized("a", 100, deleted=30)
    packed = sized("c", 120, size_bytes=15, data_change=False)
    last = sized("d", 5, size_bytes=3)
    commit_actions(store, first, second)
    commit_actions(store, removal_of(first), with_vector)
    commit_actions(store, removal_of(with_vector), removal_of(second), packed, name="OPTIMIZE")
    commit_actions(store, removal_of(packed), last)
    commit_actions(store, sized("d", 5, size_bytes=3, data_change=False, base_row_id=0))
    return store


def test_each_point_has_the_totals_of_its_version():
    store = changed_table()
    points = growth_of(store).points
    assert [point.version for point in points] == [0, 1, 2, 3, 4, 5]
    for point in points:
        totals = totals_at(store, point.version)
        assert (point.files, point.size_bytes, point.rows) == (totals.files, totals.size_bytes, totals.rows or 0)
        assert point.deleted_rows == totals.deleted_rows
    assert [point.rows for point in points] == [0, 150, 120, 120, 5, 5]
    assert [point.deleted_rows for point in points] == [0, 0, 30, 0, 0, 0]
    times = [point.timestamp_ms for point in points]
    assert times == sorted(set(times))


def test_a_later_read_reads_only_the_new_commits():
    store = changed_table()
    earlier = growth_of(store)
    commit_actions(store, sized("e", 1))
    read_names = []
    snapshot, totals = Snapshot.load(store), totals_at(store)
    store.before = lambda operation, name: read_names.append(name) if operation != "list_from" else None
    later = read_growth(snapshot, totals, earlier=earlier)
    assert {name for name in read_names if name.endswith(".json")} == {commit_name(6)}
    store.before = lambda *_: None
    assert later == growth_of(store)
    assert read_growth(snapshot, totals, earlier=later) == later


@pytest.mark.parametrize(
    ("limit", "value"),
    [("MAX_COMMITS", 3), ("MAX_BYTES", sum(len(changed_table().read(commit_name(n))) for n in (3, 4, 5)))],
)
def test_a_later_read_leaves_out_commits_older_than_the_points(monkeypatch, limit, value):
    monkeypatch.setattr(growth, limit, value)
    store = changed_table()
    earlier = growth_of(store)
    assert [point.version for point in earlier.points] == [3, 4, 5]
    assert growth_of(store, earlier=earlier) == earlier


def test_a_read_ignores_an_earlier_result_of_a_later_version():
    store = changed_table()
    later = growth_of(store)
    snapshot, totals = Snapshot.load(store, 3), totals_at(store, 3)
    assert read_growth(snapshot, totals, earlier=later) == read_growth(snapshot, totals)


def test_growth_lists_the_optimizes_and_the_rebuildable_versions():
    store = changed_table()
    earlier = growth_of(store)
    assert (earlier.optimizes, earlier.readable) == ((3,), ((0, 5),))
    write_checkpoint(Snapshot.load(store, 4), now_ms=NOON_MS)
    for version in range(3):
        store.delete(commit_name(version))
    commit_actions(store, sized("e", 1), name="OPTIMIZE")
    later = growth_of(store, earlier=earlier)
    assert (later.optimizes, later.readable) == ((3, 6), ((4, 6),))


def test_missing_numbers_of_a_removal_come_from_the_commit_that_added_the_file():
    store = create(new_store())
    commit_actions(store, sized("a", 100))
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    commit_actions(store, remove("a", size_bytes=10), sized("b", 7, size_bytes=4))
    for version in (0, 1):
        store.delete(commit_name(version))
    [point] = growth_of(store).points
    assert (point.version, point.files, point.size_bytes, point.rows) == (2, 1, 4, 7)
    commit_actions(store, remove("b"), sized("c", 1, size_bytes=1))
    assert [(point.size_bytes, point.rows) for point in growth_of(store).points] == [(4, 7), (1, 1)]


def test_the_numbers_of_a_removed_file_may_be_unknown(monkeypatch):
    store = create(new_store())
    commit_actions(store, sized("a", 100))
    commit_actions(store, remove("a"), sized("b", 7, size_bytes=4))
    monkeypatch.setattr(growth, "MAX_COMMITS", 2)
    known = growth_of(store).points
    assert [(point.files, point.size_bytes, point.rows) for point in known] == [(1, 10, 100), (1, 4, 7)]
    commit_actions(store, sized("c", 1, size_bytes=1))
    commit_actions(store, remove("b"), remove("c"), sized("d", 1, size_bytes=1))
    unknown = growth_of(store).points
    assert [(point.version, point.files, point.size_bytes, point.rows) for point in unknown] == [
        (3, 2, None, None),
        (4, 1, 1, 1),
    ]


def test_versions_with_a_checkpoint_are_marked_and_the_limit_of_bytes_holds(monkeypatch):
    store = changed_table()
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    assert growth_of(store).checkpoints == (5,)
    monkeypatch.setattr(growth, "MAX_BYTES", 1)
    assert growth_of(store).points == ()


def test_the_bytes_of_the_log_begin_again_at_each_checkpoint_and_are_unknown_before_the_first_readable_version():
    store = append_files(create(new_store()), 2)
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    append_files(store, 2)
    sizes = [len(store.read(commit_name(version))) for version in range(5)]
    assert growth_of(store).log_bytes == (sizes[0], sizes[0] + sizes[1], 0, sizes[3], sizes[3] + sizes[4])
    store.delete(commit_name(0))
    assert growth_of(store).log_bytes == (None, 0, sizes[3], sizes[3] + sizes[4])
    store.delete(commit_name(2))
    assert growth_of(store).log_bytes == (sizes[3], sizes[3] + sizes[4])


def test_a_point_has_the_effort_of_its_commit():
    store = create(new_store())
    info = {"readVersion": 0, "operationMetrics": {"execution_time_ms": 70, "numReplans": "3"}}
    put_raw(store, 1, [sized("a", 1)])
    put_raw(store, 2, [{"commitInfo": info}, sized("b", 1)])
    efforts = [point.effort for point in growth_of(store).points]
    assert efforts == [CommitEffort(), CommitEffort(), CommitEffort(duration_ms=70, replans=3, versions_meanwhile=1)]


def test_a_malformed_action_is_an_error_that_names_the_commit():
    store = create(new_store())
    put_raw(store, 1, [{"add": {**json.loads('{"path": "a", "size": "many"}'), "dataChange": True}}])
    with pytest.raises(CorruptLogError, match="00000000000000000001"):
        read_growth(_AtVersion(Snapshot.load(store, 0), 1), Totals(files=0, size_bytes=0, rows=0))


class _AtVersion:
    """A snapshot that claims to have a later version. The commit of this version cannot be loaded."""

    def __init__(self, snapshot, version):
        self.store, self.protocol, self.metadata = snapshot.store, snapshot.protocol, snapshot.metadata
        self.version = version
