"""The table of files: the files of a version as an Arrow table.

A million files are one table, not a million objects. Columns have the protocol's names and the encoding of the log
(`path` is URI-encoded, `stats` is JSON text). A file's identity is its canonical path and the id of its deletion
vector. Protocol: Add File and Remove File, Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import AddFile, RemoveFile, from_json
from deltalite.protocol.paths import NOT_CANONICAL, canonical_path

STRING_MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD_TYPES: Mapping[str, pa.DataType] = {
    "path": pa.string(),
    "partitionValues": STRING_MAP,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "stats": pa.string(),
    "deletionVector": DELETION_VECTOR,
    "tags": STRING_MAP,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
    "clusteringProvider": pa.string(),
}
REMOVE_TYPES: Mapping[str, pa.DataType] = {
    "path": pa.string(),
    "deletionTimestamp": pa.int64(),
    "extendedFileMetadata": pa.bool_(),
    "partitionValues": STRING_MAP,
    "size": pa.int64(),
    "deletionVector": DELETION_VECTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
}
# If a table leaves out more rows than this, a filtered copy takes less time than slices.
_MAX_SLICES = 1_000
_BYTES_AT_A_TIME = 1 << 20
_ROWS_AT_A_TIME = 4_096
# Defaults of fields that the protocol requires and some writers leave out.
FIELD_DEFAULTS: Mapping[str, Any] = {"partitionValues": {}, "size": 0, "modificationTime": 0, "dataChange": False}
LISTED_COLUMNS = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")
"""The columns that reads, pruning and listings need."""


def file_key(path: str, deletion_vector: Mapping[str, Any] | None) -> str:
    """Return the identity of a file in replay: its canonical path, and the id of its deletion vector if it has one."""
    canonical = canonical_path(path)
    return canonical if deletion_vector is None else f"{canonical}\n{deletion_vector_id(deletion_vector)}"


def deletion_vector_id(descriptor: Mapping[str, Any]) -> str:
    """Return `storageType` and `pathOrInlineDv`, with `@offset` if there is one. Protocol: Deletion Vectors."""
    offset = descriptor.get("offset")
    vector_id = f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}"
    return vector_id if offset is None else f"{vector_id}@{offset}"


def key_column(files: pa.Table) -> pa.ChunkedArray:
    """Return `file_key` for each row of a table with `path` and `deletionVector`; plain paths need no Python loop."""
    paths, vectors = rewrite_noncanonical_paths(files["path"], canonical_path), files["deletionVector"]
    if vectors.null_count == len(vectors):
        return paths
    fields = ("storageType", "pathOrInlineDv", "offset")
    storage_types, locations, offsets = (pc.struct_field(vectors, field) for field in fields)
    suffixes = pc.coalesce(pc.binary_join_element_wise("@", offsets.cast(pa.string()), ""), "")
    null_options = {"null_handling": "replace", "null_replacement": str(None)}  # as in `deletion_vector_id`
    ids = pc.binary_join_element_wise(storage_types, locations, "", **null_options)
    return pc.if_else(pc.is_valid(vectors), pc.binary_join_element_wise(paths, "\n", ids, suffixes, ""), paths)


def table_of(
    bodies: Sequence[Mapping[str, Any]],
    types: Mapping[str, pa.DataType],
    cls: type[AddFile | RemoveFile],
    source: str = "The log",
) -> pa.Table:
    """Convert raw action bodies to a table with all columns of `types`; other keys are left out.

    Raises:
        CorruptLogError: a value has the wrong type; `source` names the file.
    """
    schema = pa.schema(list(types.items()))
    # Arrow accepts a list as a map, but `[null]` crashes the process: arrow/array/array_nested.cc, MapArray::SetData.
    map_columns = [name for name, data_type in types.items() if pa.types.is_map(data_type)]
    if any(list in {type(body.get(name)) for body in bodies} for name in map_columns):
        _check_each(bodies, cls, source)
    try:
        rows = pa.array(bodies, type=pa.struct(list(schema)))
    except (ValueError, TypeError, OverflowError) as error:  # Arrow's errors derive from these classes
        _check_each(bodies, cls, source)
        raise CorruptLogError(
            f"{source} contains an invalid {cls.action} action: {error}.",
            remedy="Repair the log with the engine that wrote it.",
        ) from error
    return (
        pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)], schema=schema)
        if len(rows)
        else schema.empty_table()
    )


def _check_each(bodies: Iterable[Mapping[str, Any]], cls: type[AddFile | RemoveFile], source: str) -> None:
    """Raise `CorruptLogError` for the first body with a value of the wrong type."""
    for body in bodies:
        from_json(cls, {**FIELD_DEFAULTS, **{key: value for key, value in body.items() if value is not None}}, source)


def removes_of(files: pa.Table, *, deletion_timestamp_ms: int, data_change: bool) -> Iterator[RemoveFile]:
    """Yield the remove actions of a table of files; a few thousand are created at a time."""
    for row in _rows(files):
        yield RemoveFile(
            path=row["path"],
            data_change=data_change,
            deletion_timestamp_ms=deletion_timestamp_ms,
            extended_file_metadata=True,
            partition_values=dict(row["partitionValues"] or ()),
            size_bytes=row["size"],
            stats=row.get("stats"),
            deletion_vector=without_null_values(row["deletionVector"]),
            base_row_id=row.get("baseRowId"),
            default_row_commit_version=row.get("defaultRowCommitVersion"),
        )


def adds_of(files: pa.Table, *, data_change: bool) -> Iterator[AddFile]:
    """Return the add actions of a table of files with all columns of `ADD_TYPES`, created a few thousand at a time."""
    return (add_of(row, data_change=data_change) for row in _rows(files))


def add_of(row: Mapping[str, Any], *, data_change: bool) -> AddFile:
    """Return the add action of a file; `row` has all columns of `ADD_TYPES`."""
    return AddFile(
        path=row["path"],
        partition_values=dict(row["partitionValues"] or ()),
        size_bytes=row["size"],
        modification_time_ms=row["modificationTime"],
        data_change=data_change,
        stats=row["stats"],
        tags=None if row["tags"] is None else dict(row["tags"]),
        deletion_vector=without_null_values(row["deletionVector"]),
        base_row_id=row["baseRowId"],
        default_row_commit_version=row["defaultRowCommitVersion"],
        clustering_provider=row["clusteringProvider"],
    )


def bytes_of(files: pa.Table) -> int:
    """Return the total size of the files in bytes. `files` must have the column `size`."""
    return total(files["size"])


def deleted_rows_of(files: pa.Table) -> int:
    """Return the number of soft-deleted rows in the files. `files` must have the column `deletionVector`."""
    return total(deleted_rows_by_file(files))


def deleted_rows_by_file(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of soft-deleted rows in each file. `files` must have the column `deletionVector`."""
    return pc.fill_null(pc.struct_field(files["deletionVector"], "cardinality"), 0)


def total(numbers: pa.ChunkedArray | pa.Array) -> int:
    """Return the sum of the integers, or 0 if there are none; nulls do not count."""
    result: int | None = pc.sum(numbers).as_py()
    return result or 0


def _rows(files: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in files.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        yield from batch.to_pylist()


def without_null_values(descriptor: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a deletion vector's descriptor without null values."""
    return None if descriptor is None else {key: value for key, value in descriptor.items() if value is not None}


def rewrite_noncanonical_paths(paths: pa.ChunkedArray, rewrite: Callable[[str], str]) -> pa.ChunkedArray:
    """Return the paths of the log, with `rewrite` applied to each path that is not canonical."""
    if not (_may_have_noncanonical_paths(paths) or pc.any(pc.starts_with(paths, "file:")).as_py()):
        return paths
    return pa.chunked_array([_rewrite_chunk(chunk, rewrite) for chunk in paths.chunks], pa.string())


def _rewrite_chunk(paths: pa.StringArray, rewrite: Callable[[str], str]) -> pa.StringArray:
    is_not_canonical = pc.match_substring_regex(paths, NOT_CANONICAL)
    texts = pa.array([rewrite(path) for path in paths.filter(is_not_canonical).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, is_not_canonical, texts)


def _may_have_noncanonical_paths(paths: pa.ChunkedArray) -> bool:
    """Whether a path can contain `%`, `//`, `/.` or `./`. False is always right, and True may be wrong.

    This function checks the bytes of all strings at once, because a check of each string takes much longer. It also
    counts a pair whose first character ends one string and whose second character begins the next string.
    """
    for text in (chunk.buffers()[2] for chunk in paths.chunks):
        size = 0 if text is None else text.size
        for start in range(0, size, _BYTES_AT_A_TIME):
            block = text.slice(start, min(_BYTES_AT_A_TIME + 1, size - start))  # one more byte, for pairs across blocks
            if b"%" in block.to_pybytes() or _has_slash_or_dot_pair(block):
                return True
    return False


def _has_slash_or_dot_pair(text: pa.Buffer) -> bool:
    """Whether a text contains `//`, `/.` or `./`."""
    characters = pa.Array.from_buffers(pa.uint8(), text.size, [None, text])
    slashes, dots = (pc.equal(characters, pa.scalar(ord(character), pa.uint8())) for character in "/.")
    slashes_or_dots = pc.or_(slashes, dots)
    pairs = pc.or_(pc.and_(slashes[:-1], slashes_or_dots[1:]), pc.and_(dots[:-1], slashes[1:]))
    return bool(pc.any(pairs).as_py())


def overridden_mask(files: pa.Table, newer_keys: Iterable[str]) -> pa.ChunkedArray:
    """Return a boolean for each row of a checkpoint: whether another action about the same file overrides the row.

    Another action overrides the row in two cases:

    - The row's `file_key` is among `newer_keys`, the keys of the files in newer commits.
    - An earlier row of the checkpoint has the same `file_key`.
    """
    keys = key_column(files)
    mask = _is_among(keys, newer_keys)
    if len(pc.unique(keys)) == len(keys):
        return mask
    # The writer of the checkpoint has listed a file twice.
    positions = pa.array(range(len(keys)), pa.int64())
    rows = pa.table({"key": keys, "row": positions})
    first_rows = rows.group_by("key").aggregate([("row", "min")])["row_min"]
    return pc.or_(mask, pa.chunked_array([pc.invert(pc.is_in(positions, value_set=first_rows.combine_chunks()))]))


def without_keys(files: pa.Table, keys: Iterable[str]) -> pa.Table:
    """Return the rows with a `file_key` that is not among `keys`."""
    return without_rows(files, _is_among(key_column(files), keys))


def _is_among(keys: pa.ChunkedArray, key_set: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(keys, value_set=pa.array(list(key_set), pa.string()))


def without_rows(table: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Return the rows for which `mask` is false; without a copy if `mask` is true for only a few rows."""
    positions = pc.indices_nonzero(mask).to_pylist() if pc.sum(mask).as_py() else []
    if not positions:
        return table
    if len(positions) > _MAX_SLICES:
        return table.filter(pc.invert(mask))
    starts, ends = [0, *(p + 1 for p in positions)], [*positions, table.num_rows]
    return pa.concat_tables(
        [
            table.slice(0, 0),
            *(table.slice(start, end - start) for start, end in zip(starts, ends, strict=True) if end > start),
        ]
    )
