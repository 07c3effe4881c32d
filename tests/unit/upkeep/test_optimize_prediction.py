"""The prediction from columns equals the plan of the command, and packing follows its plain definition."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.log.file_table import ADD_TYPES
from deltalite.protocol.clustering import CLUSTERING_PROVIDER
from deltalite.upkeep import bin_packing
from deltalite.upkeep.bin_packing import fill_bins
from deltalite.upkeep.optimize_candidates import candidates, files_to_pack
from deltalite.upkeep.optimize_plan import (
    CUBE_COLUMNS_TAG,
    CUBE_ID_TAG,
    ROOM_TAG,
    TARGET_SIZE_TAG,
    plan_bins,
    plan_clustering,
)
from deltalite.upkeep.optimize_prediction import predict_clustering, predict_packing

TARGET, SMALL = 100, 75


def random_files(generator: random.Random, *, tagged: bool, clustered: bool) -> pa.Table:
    """Files of three partitions; many share a time, some have deletion vectors, and some lack statistics."""
    rows = []
    for number in range(generator.randint(0, 80)):
        records = generator.choice([None, 0, 1, 10, 10**12])
        deleted = generator.choice([None, None, 0, 1, records or 0])
        tags = {}
        if tagged and generator.random() < 0.5:
            tags = {TARGET_SIZE_TAG: generator.choice(["100", "200"]), ROOM_TAG: generator.choice(["", "x", "9", "40"])}
        provider = None
        if clustered and generator.random() < 0.7:
            provider = generator.choice([CLUSTERING_PROVIDER, CLUSTERING_PROVIDER, "other"])
            tags = {
                CUBE_ID_TAG: generator.choice("xyz"),
                CUBE_COLUMNS_TAG: generator.choice(['["a"]', '["a"]', '["b"]', "[["]),
            }
        vector = {"storageType": "u", "pathOrInlineDv": "v", "offset": 1, "sizeInBytes": 1, "cardinality": deleted}
        rows.append(
            {
                "path": f"f{generator.randint(0, 9)}-{number}",
                "partitionValues": {} if clustered else {"p": generator.choice(["a", "b", None])},
                "size": generator.choice([None, 1, generator.randint(1, 110), generator.randint(1, 110)]),
                "modificationTime": generator.choice([None, 1, 2, number]),
                "stats": None if records is None else json.dumps({"numRecords": records}),
                "deletionVector": None if deleted is None else vector,
                "tags": tags or generator.choice([None, {}]),
                "clusteringProvider": provider,
            }
        )
    return pa.Table.from_pylist(rows, schema=pa.schema(list(ADD_TYPES.items())))


def sums(bins, planned_files):
    """The numbers of a plan: the files to rewrite or remove, the bytes to rewrite, and the new files."""
    empty_files = sum(file.is_empty for file in planned_files)
    return (
        sum(len(file_bin.files) for file_bin in bins) + empty_files,
        sum(file_bin.size_bytes for file_bin in bins),
        sum(file_bin.outputs for file_bin in bins),
    )


@pytest.mark.parametrize("open_bins", [1, 2, 16])
@pytest.mark.parametrize("ratio", [0.0, 0.05, 1.0])
def test_predicted_packing_equals_the_plan(monkeypatch, open_bins, ratio):
    monkeypatch.setattr(bin_packing, "_MAX_OPEN_BINS", open_bins)
    for seed in range(20):
        files = random_files(random.Random(seed), tagged=seed % 2 == 0, clustered=False)
        planned_files = candidates(files_to_pack(files, SMALL), lambda values, _: values.get("p"))
        bins = plan_bins(planned_files, target_bytes=TARGET, min_bytes=SMALL, max_deleted_ratio=ratio)
        prediction = predict_packing(
            files,
            num_records(files["stats"]),
            ["p"],
            target_bytes=TARGET,
            min_bytes=SMALL,
            max_deleted_ratio=ratio,
        )
        assert (prediction.files, prediction.size_bytes, prediction.new_files) == sums(bins, planned_files), seed


@pytest.mark.parametrize("cube_bytes", [60, 300, 100_000])
def test_predicted_clustering_equals_the_plan(cube_bytes):
    for seed in range(30):
        files = random_files(random.Random(seed), tagged=False, clustered=True)
        planned_files = candidates(files, lambda _values, _path: ())
        limits = {"target_bytes": TARGET, "max_deleted_ratio": 0.05, "cube_bytes": cube_bytes}
        bins = plan_clustering(planned_files, columns=["a"], provider=CLUSTERING_PROVIDER, full=False, **limits)
        prediction = predict_clustering(files, num_records(files["stats"]), ["a"], **limits)
        assert (prediction.files, prediction.size_bytes, prediction.new_files) == sums(bins, planned_files), seed


@pytest.mark.parametrize("open_bins", [1, 3, 16])
def test_each_file_goes_into_the_first_open_bin_with_room(monkeypatch, open_bins):
    monkeypatch.setattr(bin_packing, "_MAX_OPEN_BINS", open_bins)
    for seed in range(30):
        generator = random.Random(seed)
        sizes = [generator.randint(0, generator.choice([5, 30, 130])) for _ in range(generator.randint(0, 150))]
        bins: list[list[int]] = []
        rooms: dict[int, int] = {}
        for index, size in enumerate(sizes):
            number = next((n for n, room in rooms.items() if size <= room), len(bins))
            if number == len(bins):
                bins.append([])
                rooms[number] = 100
            bins[number].append(index)
            rooms[number] -= size
            if len(rooms) > open_bins:
                del rooms[min(rooms, key=rooms.__getitem__)]
        expected = [(indexes, max(0, rooms.get(number, 0))) for number, indexes in enumerate(bins)]
        assert [
            (index_bin.indexes, index_bin.room) for index_bin in fill_bins(range(len(sizes)), sizes, 100)
        ] == expected, seed
