"""The totals of a version's files, added up block by block."""

from __future__ import annotations

import pytest

from deltalite.inspection import file_totals
from deltalite.inspection.file_totals import FileTotals, read_totals
from deltalite.log import replay
from deltalite.protocol.file_names import compaction_name
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.compaction import write_compaction
from tests.unit.builders import NOON_MS, add, append_files, commit_actions, create, load, new_store, remove, vector


def with_rows(path, rows, **changes):
    return add(path, stats=f'{{"numRecords":{rows}}}', **changes)


@pytest.mark.parametrize("block_rows", [1, 2, 65_536])
def test_the_totals_do_not_depend_on_the_blocks(block_rows, monkeypatch):
    monkeypatch.setattr(file_totals, "_BLOCK_ROWS", block_rows)
    store = create(new_store(), with_rows("a", 1), with_rows("b", 2), with_rows("c", 4))
    write_checkpoint(load(store), now_ms=NOON_MS)
    commit_actions(store, remove("a"), with_rows("d", 8, deletion_vector=vector("ab^-aqEH.-t@S}K{vb[*k^")))
    vectors = load(store).files["deletionVector"].to_pylist()
    deleted_rows = sum(descriptor["cardinality"] for descriptor in vectors if descriptor is not None)
    assert deleted_rows > 0
    expected = FileTotals(files=3, size_bytes=30, rows=14, deleted_rows=deleted_rows)
    snapshot = load(store)
    assert read_totals(snapshot) == FileTotals.of([snapshot.files_with()]) == expected


def test_the_rows_are_unknown_if_one_file_lacks_its_number():
    store = create(new_store(), with_rows("a", 1), add("b"))
    assert read_totals(load(store)) == FileTotals(files=2, size_bytes=20, rows=None, deleted_rows=0)


def test_an_empty_table_has_zeros():
    assert read_totals(load(create(new_store()))) == FileTotals(files=0, size_bytes=0, rows=0, deleted_rows=0)


def test_the_totals_are_right_if_a_compaction_is_damaged_before_its_statistics_are_read(monkeypatch):
    monkeypatch.setattr(replay, "_MAX_HELD_BYTES", -1)
    store = append_files(create(new_store()), 3)
    write_compaction(store, 1, 3)
    snapshot = load(store)
    assert snapshot.files_with(["path"]).num_rows == 3
    store.files[compaction_name(1, 3)] = (b"{", 0)
    assert read_totals(snapshot).files == 3
