"""The plan of an optimize groups the files to rewrite and keeps all other files."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.protocol.properties import check_new_properties
from deltalite.requests import OptimizeRequest
from deltalite.upkeep import bin_packing, optimize_plan
from deltalite.upkeep.optimize_plan import (
    CUBE_COLUMNS_TAG,
    CUBE_ID_TAG,
    ROOM_TAG,
    TARGET_SIZE_TAG,
    Z_ORDER,
    Batch,
    Bin,
    Candidate,
    batches,
    cube_tags,
    plan_bins,
    plan_clustering,
    plan_cubes,
)


def file(number, size, partition="p", *, modified_ms=None, records=100, deleted=None, **tags):
    """A file that an optimize may rewrite. The modification time is the number of the file by default."""
    return Candidate(
        number=number, partition=partition, path=f"f{number}", size_bytes=size,
        modified_ms=number if modified_ms is None else modified_ms, records=records, deleted=deleted, tags=tags,
    )  # fmt: skip


def numbers(bins):
    """The numbers of the files of each bin."""
    return [[f.number for f in bin_.files] for bin_ in bins]


def pack(*files, target=100, smallest=75, ratio=0.05):
    """The numbers of the files of each bin that an optimize without clustering rewrites."""
    return numbers(plan_bins(files, target_bytes=target, min_bytes=smallest, max_deleted_ratio=ratio))


def z_order(*files, target=100, cube_bytes=1000, ratio=0.05):
    """The bins that an optimize by Z-order rewrites."""
    tags = cube_tags(["a"], Z_ORDER)
    return plan_cubes(files, tags=tags, target_bytes=target, max_deleted_ratio=ratio, cube_bytes=cube_bytes)


def in_cube(number, size, cube, **options):
    """A file that an earlier optimize wrote in Z-order, as a part of a cube."""
    return file(number, size, **options, **cube_tags(["a"], Z_ORDER), **{CUBE_ID_TAG: cube})


def test_small_files_fill_bins_of_their_partition_oldest_first():
    assert pack(file(2, 40), file(0, 40), file(1, 40, "q"), file(3, 40), file(4, 40, "q")) == [[0, 2], [1, 4]]
    assert pack(file(0, 40), file(1, 70), file(2, 40)) == [[0, 2]], "the third file joins the bin of the first"


def test_a_large_or_single_file_is_not_rewritten():
    assert pack(file(0, 75), file(1, 75), file(2, 10)) == []
    assert pack(file(0, 74), file(1, 10)) == [[0, 1]]
    assert pack(file(0, 10), file(1, 10, "q")) == []


def test_a_file_with_too_many_deleted_rows_is_rewritten_at_any_size():
    assert pack(file(0, 500, deleted=6)) == [[0]]
    assert pack(file(0, 500, deleted=5)) == []
    assert pack(file(0, 500, deleted=1), ratio=0) == [[0]]
    assert pack(file(0, 500, records=None, deleted=1)) == [[0]], "a file without `numRecords` is rewritten"


def test_deleted_rows_do_not_count_towards_the_size_of_a_bin():
    assert pack(file(0, 70, deleted=50), file(1, 60)) == [[0, 1]]


def test_a_file_without_rows_is_in_no_bin():
    assert pack(file(0, 10, deleted=100), file(1, 10), file(2, 10, records=0)) == []
    assert file(0, 10, deleted=100).is_empty and not file(0, 10, records=None).is_empty


def test_files_that_were_packed_to_the_target_size_are_not_packed_alone_again():
    packed_files = [file(0, 30, **{TARGET_SIZE_TAG: "100"}), file(1, 30, **{TARGET_SIZE_TAG: "100"})]
    assert pack(*packed_files) == []
    assert pack(*packed_files, file(2, 10)) == [[0, 1, 2]]
    assert pack(*packed_files, target=200, smallest=150) == [[0, 1]], "the request has another target size"


def test_a_file_that_was_added_during_packing_joins_a_packed_file_with_room():
    """Such a file is older than the packed files, like a file that did not fit. The recorded room tells them apart."""
    (bin_,) = plan_bins([file(0, 30), file(1, 30)], target_bytes=100, min_bytes=75, max_deleted_ratio=0.05)
    assert bin_.room == 40
    packed_file = file(2, 10, modified_ms=9, **{TARGET_SIZE_TAG: "100", ROOM_TAG: str(bin_.room)})
    assert pack(packed_file, file(3, 40, modified_ms=5)) == [[3, 2]]
    assert pack(packed_file, file(3, 41, modified_ms=5)) == [], "the packed file had no room for this file"
    assert pack(packed_file, file(3, 41, modified_ms=10)) == [[2, 3]], "a newer file is packed by the current sizes"
    for room in ("", "-50", "many"):
        tags = {TARGET_SIZE_TAG: "100", ROOM_TAG: room}
        assert pack(file(2, 10, modified_ms=9, **tags), file(3, 40, modified_ms=5)) == []


def test_a_closed_bin_has_no_room(monkeypatch):
    monkeypatch.setattr(bin_packing, "_MAX_OPEN_BINS", 1)
    bins = plan_bins(
        [file(0, 60), file(1, 20), file(2, 50), file(3, 30)], target_bytes=100, min_bytes=75, max_deleted_ratio=0
    )
    assert [(numbers([bin_]), bin_.room) for bin_ in bins] == [([[0, 1]], 0), ([[2, 3]], 20)]


def test_a_file_that_the_plan_left_out_does_not_join_a_file_of_that_plan(monkeypatch):
    """The bin of such a file was not rewritten. The file stays, although a new file of the plan has room for it."""

    def plan_twice(*files):
        bins = plan_bins(files, target_bytes=100, min_bytes=75, max_deleted_ratio=0.05)
        rewritten = {f.number for bin_ in bins for f in bin_.files}
        new_file = file(99, 2, **{TARGET_SIZE_TAG: "100", ROOM_TAG: str(bins[-1].room)})
        return numbers(bins), pack(*(f for f in files if f.number not in rewritten), new_file)

    tags_of_packed_file = {TARGET_SIZE_TAG: "100", ROOM_TAG: "1"}
    assert plan_twice(file(0, 50), file(1, 48, **tags_of_packed_file), file(2, 10), file(3, 10)) == ([[2, 3]], [])
    monkeypatch.setattr(bin_packing, "_MAX_OPEN_BINS", 1)
    files_of_closed_bins = file(0, 74), file(1, 74), file(2, 26)
    assert plan_twice(*files_of_closed_bins, file(3, 5), file(4, 6)) == ([[1, 2], [3, 4]], [])


@pytest.mark.parametrize("seed", range(5))
def test_a_second_run_rewrites_nothing_for_any_new_sizes(seed):
    """Packed rows take less space, by an unknown amount."""
    random_generator = random.Random(seed)
    files = [file(n, random_generator.randint(1, 110), random_generator.choice("pq")) for n in range(200)]
    bins = plan_bins(files, target_bytes=100, min_bytes=75, max_deleted_ratio=0.05)
    assert all(bin_.live_bytes <= 100 for bin_ in bins)
    rewritten = {f.number for bin_ in bins for f in bin_.files}
    new_files = [
        file(
            1000 + n, max(1, bin_.live_bytes // random_generator.randint(1, 9)), bin_.files[0].partition,
            **{TARGET_SIZE_TAG: "100", ROOM_TAG: str(bin_.room)},
        )
        for n, bin_ in enumerate(bins)
    ]  # fmt: skip
    untouched = [f for f in files if f.number not in rewritten]
    assert len(new_files) < len(rewritten)
    new_files = [f for f in new_files if f.size_bytes < 75]  # `min_file_size` excludes larger files
    assert pack(*untouched, *new_files) == []


def test_the_same_files_give_the_same_plan():
    files = [file(n, n % 60 + 1, "pq"[n % 2], modified_ms=n // 7) for n in range(100)]
    shuffled = random.Random(1).sample(files, len(files))
    assert numbers(plan_bins(files, target_bytes=100, min_bytes=75, max_deleted_ratio=1)) == numbers(
        plan_bins(shuffled, target_bytes=100, min_bytes=75, max_deleted_ratio=1)
    )


def test_the_files_of_a_partition_are_z_ordered_into_files_of_the_target_size():
    (bin_,) = z_order(file(0, 150), file(1, 150))
    assert (numbers([bin_]), bin_.outputs) == ([[0, 1]], 3)
    assert [bin_.outputs for bin_ in z_order(file(0, 10), file(1, 30, "q"))] == [1, 1]


def test_a_z_ordered_partition_is_not_rewritten_until_it_gets_a_file():
    cube_files = [in_cube(0, 100, "x"), in_cube(1, 100, "x")]
    assert z_order(*cube_files) == []
    assert z_order(*cube_files, in_cube(2, 100, "y")) == []
    assert numbers(z_order(*cube_files, file(2, 10))) == [[0, 1, 2]]
    files_of_other_columns = [file(0, 100, **cube_tags(["b"], Z_ORDER), **{CUBE_ID_TAG: "x"})]
    assert numbers(z_order(*files_of_other_columns)) == [[0]], "ordered by other columns"


def test_full_cubes_are_not_rewritten_for_new_files():
    cube_files = [in_cube(0, 250, "x"), in_cube(1, 250, "x"), in_cube(2, 200, "y")]
    assert numbers(z_order(*cube_files, file(3, 10))) == [[2, 3]]


def test_a_z_ordered_file_with_too_many_deleted_rows_is_ordered_again():
    cube_files = [in_cube(0, 500, "x"), in_cube(1, 500, "x", deleted=50)]
    assert numbers(z_order(*cube_files)) == [[1]]


def test_the_files_and_deleted_rows_of_a_commit_are_limited(monkeypatch):
    monkeypatch.setattr(optimize_plan, "_MAX_OLD_FILES", 3)
    monkeypatch.setattr(optimize_plan, "_MAX_DELETED_ROWS", 50)
    bins = [Bin(files=(file(n, 1, deleted=n), file(n + 1, 1))) for n in (0, 10)]
    assert len(batches(bins, [], max_bytes=1000)) == 2
    bins = [Bin(files=(file(n, 1, deleted=n),)) for n in (20, 30, 1)]
    assert [numbers(batch.bins) for batch in batches(bins, [], max_bytes=1000)] == [[[20], [30]], [[1]]]


def test_a_cube_has_at_most_the_files_that_a_job_can_write():
    (cube,) = z_order(file(0, 10**6), target=1, cube_bytes=10**7)
    assert cube.outputs == 10_000


def test_a_bin_is_never_split_between_commits():
    bins = [Bin(files=(file(n, size),)) for n, size in enumerate([60, 50, 200, 10, 10])]
    empty = [file(9, 5, records=0)]
    commits = batches(bins, empty, max_bytes=110)
    assert [numbers(batch.bins) for batch in commits] == [[[0], [1]], [[2]], [[3], [4]]]
    assert [batch.empty_files for batch in commits] == [(), (), tuple(empty)]
    assert batches([], [], max_bytes=1) == []
    assert batches([], empty, max_bytes=1) == [Batch(bins=(), empty_files=tuple(empty))]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"z_order_by": "abc"}, r"z_order_by is the text 'abc'"),
        ({"target_file_size": 10**19}, "target_file_size is 1"),
        ({"min_file_size": 10**19}, "min_file_size is 1"),
    ],
)
def test_invalid_options_are_rejected(options, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        OptimizeRequest(table="/t", **options)


def test_an_excessive_target_size_property_is_rejected():
    with pytest.raises(InvalidRequestError, match=r"delta\.targetFileSize"):
        check_new_properties({"delta.targetFileSize": "9999999p"})


def cluster(*files, full=False, cube_bytes=100_000):
    """The numbers of the files of each bin that an optimize of a clustered table rewrites."""
    bins = plan_clustering(
        files,
        columns=["a", "b.c"],
        provider="liquid",
        target_bytes=100,
        max_deleted_ratio=0.05,
        cube_bytes=cube_bytes,
        full=full,
    )
    return numbers(bins)


def clustered_file(number, size, cube, columns='["a","b.c"]', provider="liquid", **options):
    candidate = file(number, size, **options, **{CUBE_ID_TAG: cube, CUBE_COLUMNS_TAG: columns})
    return replace(candidate, clustering_provider=provider)


def test_new_files_are_combined_only_with_cubes_that_are_not_larger():
    assert cluster(file(0, 10), file(1, 10)) == [[0, 1]]
    assert cluster(clustered_file(0, 100, "x"), file(1, 10)) == [[1]]
    assert cluster(clustered_file(0, 100, "x"), clustered_file(1, 10, "y"), file(2, 10)) == [[1, 2]]
    assert cluster(clustered_file(0, 30, "x"), clustered_file(1, 10, "y"), clustered_file(2, 10, "y"), file(3, 20)) == [
        [0, 1, 2, 3]
    ]
    assert cluster(clustered_file(0, 600, "x"), file(1, 700), cube_bytes=1000) == [[1]], "a full cube is not rewritten"


def test_clustered_files_stay_until_a_file_arrives_or_loses_rows():
    assert cluster(clustered_file(0, 100, "x"), clustered_file(1, 10, "y")) == []
    assert cluster(clustered_file(0, 100, "x"), clustered_file(1, 10, "y", deleted=50)) == [[1]]


def test_files_of_other_columns_or_providers_are_rewritten_only_by_a_full_clustering():
    other_files = [clustered_file(0, 10, "x", columns='["b.c"]'), clustered_file(1, 10, "z", provider="other")]
    assert cluster(*other_files) == []
    assert cluster(*other_files, clustered_file(2, 10, "w"), full=True) == [[0, 1, 2]]
    assert cluster(clustered_file(0, 10, "x"), clustered_file(1, 10, "x"), full=True) == []


def test_a_full_clustering_does_not_rewrite_full_cubes_of_the_same_columns():
    full_cubes = [clustered_file(0, 600, "x"), clustered_file(1, 900, "y")]
    assert cluster(*full_cubes, clustered_file(2, 100, "z"), full=True, cube_bytes=1000) == []
    file_of_other_columns = clustered_file(3, 100, "w", columns='["b.c"]')
    assert cluster(*full_cubes, clustered_file(2, 100, "z"), file_of_other_columns, full=True, cube_bytes=1000) == [
        [2, 3]
    ]
    assert cluster(*full_cubes, file(4, 50), full=True, cube_bytes=1000) == [[4]]


@pytest.mark.parametrize("text", ["[[", None, '{"a": 1}'])
def test_files_with_an_unreadable_list_of_columns_count_as_unclustered(text):
    assert cluster(clustered_file(0, 10, "x", columns=text)) == [[0]]


def test_z_ordered_files_count_as_unclustered():
    assert cluster(clustered_file(0, 10, "x", provider=None)) == [[0]]
    assert cluster(clustered_file(0, 10, "x", columns='["c"]', provider=None)) == [[0]]
