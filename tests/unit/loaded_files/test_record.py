"""The record of loaded files: a file is looked up by address, size, time and ETag, and segments are merged."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from deltalite.errors import CommitStateUnknownError, CorruptLogError, StorageError, UnsupportedFeatureError
from deltalite.loaded_files import segment
from deltalite.loaded_files.keys import FILES, FileKeys, matches
from deltalite.loaded_files.manifest import Manifest, manifest_name, manifest_number, read_manifest
from deltalite.loaded_files.merging import segments_to_merge
from deltalite.loaded_files.record import add_loaded_files, find_loaded, read_loaded_files
from deltalite.protocol.file_names import LOADED_FILES_DIR
from deltalite.storage.memory import MemoryLogStore


def files(*rows):
    """A table of files. A row is (address, size, time) or (address, size, time, ETag)."""
    padded = [(*row, None)[:4] for row in rows]
    return pa.table([list(column) for column in zip(*padded, strict=True)], schema=FILES)


def record(store, *loads, manifest=None, **options):
    """Add the files of each load, and return the last manifest."""
    manifest = manifest or Manifest()
    for number, load in enumerate(loads):
        manifest = add_loaded_files(store, manifest, load, loaded_ms=number, **options)
    return manifest


def addresses(store, manifest, **times):
    return [
        address for table in read_loaded_files(store, manifest, **times) for address in table["address"].to_pylist()
    ]


def test_a_file_is_loaded_if_its_address_size_and_time_are_equal():
    store = MemoryLogStore()
    manifest = record(store, files(("s3://b/a.csv", 10, 1_000), ("s3://b/c.csv", 10, 3_000)))
    candidates = files(
        ("s3://b/c.csv", 10, 3_000),
        ("s3://b/c.csv", 11, 3_000),
        ("s3://b/c.csv", 10, 3_001),
        ("s3://b/d.csv", 10, 3_000),
        ("s3://b/a.csv", 10, 1_000),
    )
    assert find_loaded(store, manifest, candidates).tolist() == [True, False, False, False, True]
    assert find_loaded(store, Manifest(), candidates).tolist() == [False] * 5
    assert find_loaded(store, manifest, files(("x", 1, 1)).slice(0, 0)).tolist() == []


@pytest.mark.parametrize("kind", ["segment", "manifest"])
def test_a_put_with_an_unknown_outcome_fails_with_an_error_that_is_retried(kind):
    store = MemoryLogStore()

    def time_out(operation, name):
        if operation == "write_if_absent" and kind in name:
            raise CommitStateUnknownError("The put timed out.", remedy="Look at the log.")

    store.before = time_out
    with pytest.raises(StorageError, match=r"record of loaded files.*timed out.*The table is unchanged") as caught:
        record(store, files(("a", 1, 1)))
    assert caught.value.retryable


def test_an_etag_decides_only_if_both_files_have_one():
    store = MemoryLogStore()
    manifest = record(store, files(("a", 1, 1, "old"), ("b", 1, 1)), files(("a", 1, 1, "new")))
    candidates = files(("a", 1, 1, "old"), ("a", 1, 1, "new"), ("a", 1, 1, "other"), ("a", 1, 1), ("b", 1, 1, "any"))
    assert find_loaded(store, manifest, candidates).tolist() == [True, True, False, True, True]


def test_files_with_the_same_half_of_a_key_are_told_apart():
    def keys(high, low):
        zeros = np.zeros(len(high), np.int64)
        return FileKeys(high=np.array(high), low=np.array(low), modified_ms=zeros, etag=zeros)

    loaded = keys([1, 5, 5, 5, 9], [0, 1, 2, 3, 0])
    assert matches(keys([5, 5, 9, 0], [3, 4, 0, 0]), loaded).tolist() == [True, False, True, False]


@pytest.mark.parametrize("same_time", [False, True])
def test_each_of_many_files_is_found_in_any_order(monkeypatch, same_time):
    monkeypatch.setattr(segment, "_FILES_PER_ROW_GROUP", 50)
    store, random = MemoryLogStore(), Random(7)
    rows = [(f"file {n}", n % 3, 0 if same_time else random.randrange(1_000)) for n in range(2_000)]
    loads = [files(*rows[start : start + 40]) for start in range(0, 1_000, 40)]
    manifest = record(store, *loads, max_files=300)
    random.shuffle(candidates := list(rows))
    expected = [int(address.removeprefix("file ")) < 1_000 for address, _, _ in candidates]
    assert find_loaded(store, manifest, files(*candidates)).tolist() == expected
    assert sorted(addresses(store, manifest)) == sorted(address for address, _, _ in rows[:1_000])
    assert max(s.file_count for s in manifest.segments) <= 300


def test_a_look_up_reads_only_segments_with_the_time_of_a_candidate():
    store = MemoryLogStore()
    manifest = record(store, *(files((f"{day}", 1, day)) for day in range(5)))
    opened = []
    store.before = lambda operation, name: opened.append(name) if operation == "open" else None
    assert find_loaded(store, manifest, files(("3", 1, 3), ("new", 1, 9))).tolist() == [True, False]
    assert opened == [manifest.segments[3].name]
    opened.clear()
    assert addresses(store, manifest, since_ms=1, until_ms=3) == ["2", "1"]
    assert len(opened) == 2


def test_the_number_of_segments_stays_logarithmic():
    counts: list[int] = []
    written_files = 0
    for _ in range(4_000):
        merged_positions = segments_to_merge(counts, 10, max_files=10_000)
        new_count = 10 + sum(counts[n] for n in merged_positions)
        counts = [count for n, count in enumerate(counts) if n not in merged_positions] + [new_count]
        written_files += new_count
    assert sum(counts) == 40_000
    assert len(counts) <= 7 * 4 + 40_000 // 5_000
    assert max(counts) <= 10_000
    assert written_files < 6 * 40_000


def test_a_large_segment_is_not_merged_again():
    assert segments_to_merge([600] * 20, 1, max_files=1_000) == []
    assert segments_to_merge([1] * 7, 600, max_files=1_000) == []
    assert segments_to_merge([1] * 7, 1, max_files=1_000) == list(range(7))


def test_a_manifest_gets_a_number_that_no_other_manifest_has():
    store = MemoryLogStore()
    first = record(store, files(("a", 1, 1)))
    rival = record(store, files(("b", 1, 1)), manifest=first)
    assert (first.number, rival.number) == (0, 1)
    later = record(store, files(("c", 1, 1)), manifest=first)  # the run did not see its rival
    assert later.number == 2
    assert addresses(store, read_manifest(store, 2)) == ["a", "c"]
    del store.files[manifest_name(2)]
    assert record(store, files(("d", 1, 1)), manifest=later).number == 3  # the number 2 is not used again


def test_a_run_takes_the_next_number_if_a_rival_takes_its_number():
    store = MemoryLogStore()

    def take_number(operation, name):
        if operation == "write_if_absent" and manifest_number(name) == 0:
            store.files.setdefault(name, (b"", 0))

    store.before = take_number
    assert record(store, files(("a", 1, 1))).number == 1


def test_names_in_the_folder_do_not_look_like_log_files():
    store = MemoryLogStore()
    record(store, files(("a", 1, 1)))
    bases = [name.removeprefix(f"{LOADED_FILES_DIR}/") for name in store.files]
    assert len(bases) == 2
    assert all("/" not in base and not base[0].isdigit() for base in bases)


def test_a_lost_or_damaged_record_is_an_error_and_never_an_empty_record():
    store = MemoryLogStore()
    manifest = record(store, files(("a", 1, 1)))
    with pytest.raises(CorruptLogError, match="missing"):
        read_manifest(store, 7)
    store.files[manifest_name(5)] = (json.dumps({"format": 1, "segments": [{"name": "../x"}]}).encode(), 0)
    with pytest.raises(CorruptLogError, match="malformed"):
        read_manifest(store, 5)
    store.files[manifest_name(6)] = (json.dumps({"format": 2}).encode(), 0)
    with pytest.raises(UnsupportedFeatureError, match="format 2"):
        read_manifest(store, 6)
    for damage in (lambda name: store.files.update({name: (b"PAR1 no", 0)}), store.files.pop):
        damage(manifest.segments[0].name)
        with pytest.raises(CorruptLogError, match="segment-"):
            find_loaded(store, manifest, files(("a", 1, 1)))
        with pytest.raises(CorruptLogError, match="segment-"):
            list(read_loaded_files(store, manifest))
