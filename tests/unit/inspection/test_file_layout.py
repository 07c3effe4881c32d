"""The classes of file sizes and the largest partitions of a version."""

from __future__ import annotations

import json

from deltalite.inspection import file_layout
from deltalite.inspection.file_layout import layout_of
from deltalite.snapshot import Snapshot
from tests.unit.builders import add, commit_actions, create, new_store

KIB = 1024


def layout_at_newest(store):
    snapshot = Snapshot.load(store)
    return layout_of(snapshot, snapshot.files_with())


def test_each_file_is_in_the_class_of_its_size():
    store = create(new_store())
    sizes = (0, 16 * KIB - 1, 16 * KIB, 64 * KIB - 1, 1024 * KIB)
    commit_actions(store, *[add(f"f{number}", size_bytes=size) for number, size in enumerate(sizes)])
    layout = layout_at_newest(store)
    assert [(c.min_bytes, c.max_bytes, c.files, c.size_bytes) for c in layout.size_classes] == [
        (0, 16 * KIB, 2, 16 * KIB - 1),
        (16 * KIB, 64 * KIB, 2, 80 * KIB - 1),
        (64 * KIB, 256 * KIB, 0, 0),
        (256 * KIB, 1024 * KIB, 0, 0),
        (1024 * KIB, 4096 * KIB, 1, 1024 * KIB),
    ]
    assert (layout.partitions, layout.partition_count) == ((), 0)


def test_the_largest_files_are_in_a_class_without_an_upper_limit_and_an_empty_table_has_no_class():
    store = create(new_store())
    assert layout_at_newest(store).size_classes == ()
    commit_actions(store, add("f", size_bytes=10**12))
    [last] = layout_at_newest(store).size_classes
    assert (last.max_bytes, last.files, last.size_bytes) == (None, 1, 10**12)


def test_partitions_have_their_totals_and_the_largest_comes_first(monkeypatch):
    store = create(new_store(), partition_columns=("day",))

    def file(path, day, size, rows, deleted=0):
        vector = {"storageType": "u", "pathOrInlineDv": path, "sizeInBytes": 1, "cardinality": deleted}
        return add(
            path,
            partition_values={"day": day},
            size_bytes=size,
            stats=None if rows is None else json.dumps({"numRecords": rows}),
            deletion_vector=vector if deleted else None,
        )

    files = [file("a", "1", 5, 10), file("b", "1", 6, 20, deleted=4), file("c", None, 1, 2), file("d", "", 2, 3)]
    commit_actions(store, *files, file("e", "2", 50, None), file("f", "2", 1, 1))
    layout = layout_at_newest(store)
    assert layout.partition_columns == ("day",)
    assert [(p.values, p.files, p.size_bytes, p.rows) for p in layout.partitions] == [
        (("2",), 2, 51, None),
        (("1",), 2, 11, 26),
        ((None,), 2, 3, 5),
    ]
    monkeypatch.setattr(file_layout, "MAX_PARTITIONS", 1)
    assert (len(layout_at_newest(store).partitions), layout_at_newest(store).partition_count) == (1, 3)


def test_a_hostile_partition_value_is_escaped_and_cut():
    store = create(new_store(), partition_columns=("day",))
    commit_actions(store, add("a", partition_values={"day": "\x1b[31m" + "x" * 100}))
    [partition] = layout_at_newest(store).partitions
    assert partition.values == ("\\x1b[31m" + "x" * 52 + "…",)
