"""The prediction of an optimize of a whole table: how many files it rewrites, and into how many.

The rules are those of the command (`bin_packing.py`). The values of a million files stay in Arrow columns and lists of
numbers, so a page can show the prediction soon. Partitions are compared by the texts of their values. The command
compares typed values, and one typed value may have several texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.files import group_by_partition
from deltalite.log.file_table import STRING_MAP, deleted_rows_by_file
from deltalite.protocol.clustering import CLUSTERING_PROVIDER
from deltalite.upkeep.bin_packing import FilesToCluster, FilesToPack, fill_bins, indexes_to_cluster, pack
from deltalite.upkeep.optimize_candidates import files_to_pack
from deltalite.upkeep.optimize_plan import (
    CUBE_COLUMNS_TAG,
    CUBE_ID_TAG,
    ROOM_TAG,
    TARGET_SIZE_TAG,
    cube_outputs,
    parsed_cube_columns,
    recorded_room,
)

_COLUMNS = ["path", "partitionValues", "size", "modificationTime", "deletionVector", "tags", "clusteringProvider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The work of an optimize.

    - `files`: the files that it rewrites or removes.
    - `size_bytes`: the bytes of the files that it rewrites.
    - `new_files`: the files that it writes.
    """

    files: int
    size_bytes: int
    new_files: int


def predict_packing(
    files: pa.Table,
    records: pa.ChunkedArray,
    partition_keys: Sequence[str],
    *,
    target_bytes: int,
    min_bytes: int,
    max_deleted_ratio: float,
) -> Prediction:
    """Predict an optimize that packs files, as `plan_bins` plans it.

    Args:
        files: the files, with the columns in `_COLUMNS`.
        records: `num_records` of the files.
        partition_keys: the partition columns as the log names them.
        target_bytes: the target file size.
        min_bytes: smaller files are packed.
        max_deleted_ratio: the limit on the ratio of soft-deleted rows of a file.
    """
    considered = files_to_pack(files.select(_COLUMNS).append_column("records", records), min_bytes)
    empty_files, live = _without_empty_files(considered, max_deleted_ratio)
    live = _in_order(live.filter(pc.or_(pc.less(live["size"], min_bytes), live["hasTooManyDeleted"])))
    packed_sizes, rooms = (_tag(live, name) for name in (TARGET_SIZE_TAG, ROOM_TAG))
    columns = FilesToPack(
        partitions=_numbers(group_by_partition(live, partition_keys).combination_of_file),
        live_bytes=_live_bytes(live),
        modified_ms=_numbers(live["modificationTime"]),
        has_too_many_deleted=_booleans(live["hasTooManyDeleted"]),
        is_packed=_booleans(pc.fill_null(pc.equal(packed_sizes, str(target_bytes)), False)),
        rooms=[0] * live.num_rows if rooms.null_count == len(rooms) else [recorded_room(x) for x in rooms.to_pylist()],
    )
    bins = list(pack(columns, target_bytes=target_bytes))
    sizes = _numbers(live["size"])
    return Prediction(
        files=sum(len(index_bin.indexes) for index_bin in bins) + empty_files,
        size_bytes=sum(sizes[index] for index_bin in bins for index in index_bin.indexes),
        new_files=len(bins),
    )


def predict_clustering(
    files: pa.Table,
    records: pa.ChunkedArray,
    columns: Sequence[str],
    *,
    target_bytes: int,
    max_deleted_ratio: float,
    cube_bytes: int,
) -> Prediction:
    """Predict an optimize of a clustered table, as `plan_clustering` plans it.

    `columns` are the clustering columns as the tags of files name them; `predict_packing` describes the
    other arguments.
    """
    considered = files.select(_COLUMNS).append_column("records", records).combine_chunks()
    empty_files, live = _without_empty_files(considered, max_deleted_ratio)
    live = _in_order(live)
    sizes = _numbers(live["size"])
    indexes = indexes_to_cluster(
        FilesToCluster(
            size_bytes=sizes,
            has_too_many_deleted=_booleans(live["hasTooManyDeleted"]),
            cube_ids=_texts(_tag(live, CUBE_ID_TAG)),
            cube_columns=_parsed(_tag(live, CUBE_COLUMNS_TAG)),
            providers=_texts(live["clusteringProvider"]),
        ),
        columns=columns,
        provider=CLUSTERING_PROVIDER,
        cube_bytes=cube_bytes,
        full=False,
    )
    live_bytes = _live_bytes(live)
    bins = fill_bins(indexes, live_bytes, cube_bytes)
    return Prediction(
        files=len(indexes) + empty_files,
        size_bytes=sum(sizes[index] for index in indexes),
        new_files=sum(cube_outputs(sum(live_bytes[index] for index in cube.indexes), target_bytes) for cube in bins),
    )


def _without_empty_files(files: pa.Table, max_deleted_ratio: float) -> tuple[int, pa.Table]:
    """Return the number of files without live rows, and the other files.

    The result has the columns `deleted` (0 without a deletion vector) and `hasTooManyDeleted`.
    """
    vectors, records = files["deletionVector"], files["records"]
    deleted = deleted_rows_by_file(files)
    is_empty = pc.fill_null(pc.equal(records, deleted), False)
    positive_records = pc.if_else(pc.equal(records, 0), None, records)
    ratios = pc.divide(deleted.cast(pa.float64(), safe=False), positive_records.cast(pa.float64(), safe=False))
    has_too_many = pc.and_(pc.is_valid(vectors), pc.fill_null(pc.greater(ratios, max_deleted_ratio), True))
    live = (
        pa.table({**dict(zip(files.column_names, files.columns, strict=True)), "deleted": deleted})
        .set_column(files.schema.get_field_index("size"), "size", pc.fill_null(files["size"], 0))
        .set_column(
            files.schema.get_field_index("modificationTime"),
            "modificationTime",
            pc.fill_null(files["modificationTime"], 0),
        )
        .append_column("hasTooManyDeleted", has_too_many)
    )
    empty_files = pc.sum(is_empty).as_py() or 0
    return empty_files, live.filter(pc.invert(is_empty)) if empty_files else live


def _in_order(files: pa.Table) -> pa.Table:
    """Return the files in the order of planning."""
    keys = files.select(["modificationTime", "path"])
    order = pc.sort_indices(keys, sort_keys=[("modificationTime", "ascending"), ("path", "ascending")])
    return files.drop_columns(["path"]).take(order).combine_chunks()


def _live_bytes(files: pa.Table) -> list[int]:
    """Return `Candidate.live_bytes` of each file."""
    sizes = _numbers(files["size"])
    has_records = pc.greater(files["records"], 0)
    live_bytes = _numbers(
        pc.if_else(pc.fill_null(has_records, False), pc.max_element_wise(files["size"], 1), files["size"])
    )
    has_deleted = pc.and_(pc.fill_null(has_records, False), pc.not_equal(files["deleted"], 0))
    indexes = pc.indices_nonzero(has_deleted)
    records, deleted = _numbers(files["records"].take(indexes)), _numbers(files["deleted"].take(indexes))
    for index, all_rows, deleted_rows in zip(_numbers(indexes), records, deleted, strict=True):
        # The products may exceed 64 bits.
        live_bytes[index] = max(1, sizes[index] * (all_rows - deleted_rows) // all_rows)
    return live_bytes


def _tag(files: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a tag of each file; null without it."""
    tags = files["tags"]
    if tags.null_count == len(tags):
        return pa.chunked_array([pa.nulls(len(tags), pa.string())])
    return pc.map_lookup(tags.cast(STRING_MAP), pa.scalar(name), "first")


def _texts(texts: pa.ChunkedArray) -> list[str | None]:
    """Return the texts; equal texts are one object."""
    return _decoded(texts, list)


def _parsed(texts: pa.ChunkedArray) -> list[list[object] | None]:
    return _decoded(texts, lambda values: [parsed_cube_columns(value) for value in values])


def _decoded(texts: pa.ChunkedArray, convert: Any) -> list[Any]:
    encoded = pa.chunked_array(texts.chunks, texts.type).combine_chunks().dictionary_encode()
    values = [*convert(encoded.dictionary.to_pylist()), None]
    return [values[index] for index in _numbers(pc.fill_null(encoded.indices, len(values) - 1))]


def _numbers(values: pa.ChunkedArray | pa.Array) -> list[int]:
    """Return integers without nulls as a list; `to_pylist` makes a scalar object for each of them."""
    array = values.cast(pa.int64())
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    numbers: list[int] = []
    for chunk in chunks:
        if len(chunk):
            numbers += memoryview(chunk.buffers()[1]).cast("q")[chunk.offset : chunk.offset + len(chunk)].tolist()
    return numbers


def _booleans(values: pa.ChunkedArray) -> list[bool]:
    return list(map(bool, _numbers(values.cast(pa.int8()))))
