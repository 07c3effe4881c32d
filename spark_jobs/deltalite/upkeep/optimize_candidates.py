"""The files that an optimize may rewrite, and the file sizes that decide about them.

The optimize command and the health report use the same candidates and the same limits, so the report predicts the work
of the command.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.record_counts import num_records
from deltalite.protocol import properties as props
from deltalite.upkeep.optimize_plan import Candidate

DEFAULT_TARGET_BYTES = 256 * 1024 * 1024
# A file of at least this share of the target size is not packed with other files, unless too many rows are deleted.
_LARGE_FILE_SHARE = 0.75


def target_file_bytes(configuration: Mapping[str, str], requested_bytes: int | None) -> int:
    """Return the target file size: the requested size, or else that of the table's properties, or else the default."""
    return requested_bytes or props.TARGET_FILE_SIZE.of(configuration) or DEFAULT_TARGET_BYTES


def small_file_bytes(target_bytes: int) -> int:
    """Return the limit below which a file counts as small, for a target file size."""
    return int(target_bytes * _LARGE_FILE_SHARE)


def files_to_pack(files: pa.Table, min_bytes: int) -> pa.Table:
    """Return the files that packing considers: files below `min_bytes`, and files with a deletion vector."""
    has_vector = pc.is_valid(files["deletionVector"])
    return files.filter(pc.or_(pc.less(files["size"], min_bytes), has_vector)).combine_chunks()


def candidates(files: pa.Table, partition_key: Callable[[Mapping[str, str | None], str], Hashable]) -> list[Candidate]:
    """Return each file as a candidate, in the order of `files`.

    Args:
        files: the files, with all columns of `ADD_TYPES`.
        partition_key: returns a key that is equal for all files of one partition, from the partition values and the
            path of a file.
    """
    columns = (
        files["path"].to_pylist(),
        files["partitionValues"].to_pylist(maps_as_pydicts="strict"),
        files["size"].to_pylist(),
        files["modificationTime"].to_pylist(),
        num_records(files["stats"]).to_pylist(),
        files["deletionVector"].to_pylist(),
        files["tags"].to_pylist(maps_as_pydicts="strict"),
        files["clusteringProvider"].to_pylist(),
    )
    return [
        Candidate(
            number=number,
            partition=partition_key(values or {}, path),
            path=path,
            size_bytes=size or 0,
            modified_ms=modified or 0,
            records=records,
            deleted=None if vector is None else vector["cardinality"] or 0,
            tags=tags or {},
            clustering_provider=provider,
        )
        for number, (path, values, size, modified, records, vector, tags, provider) in enumerate(
            zip(*columns, strict=True)
        )
    ]
