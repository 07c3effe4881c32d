"""The plan of an optimize on one snapshot: the request is checked against the table, then planned.

Requests that the table cannot serve are refused here: a `where` that does not select whole partitions, or a column
without bounds in file statistics. A clustered table is only packed; clustering it is left to engines with CLUSTER BY.
Protocol: Clustered Table, Per-file Statistics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.binding import find_path
from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.skipping.record_counts import num_records
from deltalite.columnar.statistics.footer import indexed_columns, parse_column_list
from deltalite.commands.common.write_target import WriteTarget, unchanged_target
from deltalite.commands.optimize.plan import Batch, Candidate, batches, plan_bins, plan_cubes
from deltalite.errors import InvalidRequestError
from deltalite.log.file_table import ADD_TYPES, key_column
from deltalite.protocol import properties as props
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType
from deltalite.requests import OptimizeRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.expressions.predicates import parse_predicate, reads_only
from deltalite.spark.row_changes.selecting import PartitionKeys, selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_TARGET_BYTES = 256 * 1024 * 1024
# The share of the target size from which on a file is large enough.
_LARGE_ENOUGH = 0.75
_MOST_COLUMNS = 16
# Types without bounds in file statistics.
_UNORDERED = ("boolean", "binary", "void", "variant")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizePlan:
    """The batches in order. The number of a candidate is its row in `files`, which has all columns of `ADD_TYPES`.

    `target` is the target file size in bytes. `z_order` has the logical and the physical path of each column of the
    curve; it is empty if files are only packed.
    """

    files: pa.Table
    batches: tuple[Batch, ...]
    target: int
    z_order: tuple[tuple[Path, Path], ...] = ()


def plan_for(spark: SparkSession, request: OptimizeRequest, base: Snapshot) -> OptimizePlan:
    """Return the plan for a snapshot.

    Raises:
        InvalidRequestError: the table cannot serve `where` or `z_order_by`.
    """
    table = unchanged_target(base)
    z_order = _z_order(request, table)
    chosen = _chosen(spark, base, request.where).combine_chunks()  # one chunk makes take() fast
    target = request.target_file_size or props.TARGET_FILE_SIZE.of(base.configuration) or _DEFAULT_TARGET_BYTES
    ratio = request.max_deleted_rows_ratio
    if z_order:
        candidates = _candidates(base, chosen)
        columns = [".".join(stored) for _, stored in z_order]
        bins = plan_cubes(candidates, columns=columns, target=target, ratio=ratio, cube_bytes=request.max_commit_bytes)
    else:
        smallest = request.min_file_size if request.min_file_size is not None else int(target * _LARGE_ENOUGH)
        has_vector = pc.is_valid(chosen["deletionVector"])
        chosen = chosen.filter(pc.or_(pc.less(chosen["size"], smallest), has_vector)).combine_chunks()
        candidates = _candidates(base, chosen)
        bins = plan_bins(candidates, target=target, smallest=smallest, ratio=ratio)
    empty = [file for file in candidates if file.is_empty]
    planned_batches = batches(bins, empty, most_bytes=request.max_commit_bytes)
    return OptimizePlan(files=chosen, batches=tuple(planned_batches), target=target, z_order=z_order)


def _chosen(spark: SparkSession, base: Snapshot, where: str | None) -> pa.Table:
    """Return the files of the partitions for which `where` is true, with all columns of `ADD_TYPES`."""
    all_files = base.files_with(tuple(ADD_TYPES))
    if where is None:
        return all_files
    predicate = parse_predicate(spark, where, base.schema, parameter="where")
    if not reads_only(predicate, base.partition_columns):
        names = ", ".join(base.partition_columns)
        raise InvalidRequestError(
            f"where ({where}) names other columns than the partition columns of {base.store.root}. The operation "
            "rewrites whole files. " + (f"The partition columns are {names}." if names else "The table has none."),
            remedy="Name partition columns only, or leave out where.",
        )
    keys = key_column(selection(spark, base, where, parameter="where").files)
    return all_files.filter(pc.is_in(key_column(all_files), value_set=keys.combine_chunks()))


def _candidates(base: Snapshot, files: pa.Table) -> list[Candidate]:
    keys = PartitionKeys(base)
    columns = (
        files["path"].to_pylist(),
        files["partitionValues"].to_pylist(maps_as_pydicts="strict"),
        files["size"].to_pylist(),
        files["modificationTime"].to_pylist(),
        num_records(files["stats"]).to_pylist(),
        files["deletionVector"].to_pylist(),
        files["tags"].to_pylist(maps_as_pydicts="strict"),
    )
    return [
        Candidate(
            number=number,
            partition=keys.key(values or {}, path),
            path=path,
            size_bytes=size or 0,
            modified_ms=modified or 0,
            records=records,
            deleted=None if vector is None else vector["cardinality"] or 0,
            tags=tags or {},
        )
        for number, (path, values, size, modified, records, vector, tags) in enumerate(zip(*columns, strict=True))
    ]


def _z_order(request: OptimizeRequest, target: WriteTarget) -> tuple[tuple[Path, Path], ...]:
    if not request.z_order_by:
        return ()
    if target.clustering:
        raise InvalidRequestError(
            f"{request.table} is a clustered table (CLUSTER BY {', '.join('.'.join(c) for c in target.clustering)}), "
            "so it does not allow z_order_by.",
            remedy="Leave out z_order_by, so that files are packed only. An engine with CLUSTER BY can cluster them.",
        )
    if len(request.z_order_by) > _MOST_COLUMNS:
        raise InvalidRequestError(
            f"z_order_by has {len(request.z_order_by)} columns. With so many columns, the order helps no query.",
            remedy=f"Give the columns that queries filter by, {_MOST_COLUMNS} at most.",
        )
    columns = tuple(_z_column(text, target) for text in request.z_order_by)
    if len(set(columns)) < len(columns):
        raise InvalidRequestError(
            f"z_order_by names a column twice: {', '.join(request.z_order_by)}.", remedy="Name each column once."
        )
    return columns


def _z_column(text: str, target: WriteTarget) -> tuple[Path, Path]:
    """Return the logical and the physical path of a column of `z_order_by`."""
    paths = parse_column_list(text)
    column = find_path(paths[0], target.schema) if len(paths) == 1 else None
    if column is None:
        raise InvalidRequestError(
            f"z_order_by names the column {text!r}, which the table does not have.",
            remedy=f"The columns are {', '.join(f.name for f in target.schema)}. Put a name with dots into backticks.",
        )
    path, data_type = column
    if path[0] in target.partition_columns:
        raise InvalidRequestError(
            f"z_order_by names the partition column {text!r}. All rows of a file have the same value in it.",
            remedy="Name other columns.",
        )
    if not _is_ordered(data_type):
        raise InvalidRequestError(
            f"z_order_by names {text!r}. Statistics have no bounds for its type, so readers could skip no file.",
            remedy="Name columns of numbers, texts, dates or timestamps, or a member of a struct.",
        )
    stored = target.table.physical_path(path)
    indexed = indexed_columns(target.table, target.metadata.configuration, always=target.clustering)
    if stored not in {leaf for leaf, _ in indexed.leaves}:
        raise InvalidRequestError(
            f"z_order_by names {text!r}, for which the table keeps no statistics (delta.dataSkippingStatsColumns, "
            "delta.dataSkippingNumIndexedCols). Readers could skip no file by it.",
            remedy="Name a column with statistics, or add this column to the property.",
        )
    return path, stored


def _is_ordered(data_type: DataType) -> bool:
    match data_type:
        case StructType() | ArrayType() | MapType():
            return False
        case DecimalType():
            return True
        case PrimitiveType(name):
            return name not in _UNORDERED
        case _:
            assert_never(data_type)
