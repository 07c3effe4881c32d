"""The plan of an optimize on one snapshot.

The plan refuses a `where` that does not select whole partitions, and a column of `z_order_by` without bounds in file
statistics. The rows of a clustered table are ordered by its clustering columns. Protocol: Clustered Table, Per-file
Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.statistics.footer import indexed_columns
from deltalite.commands.common.order_columns import order_columns
from deltalite.commands.common.write_target import WriteTarget, unchanged_target
from deltalite.errors import InvalidRequestError, MetadataChangedException
from deltalite.log.file_table import ADD_TYPES, key_column
from deltalite.protocol.clustering import CLUSTERING_PROVIDER, column_text, logical_paths
from deltalite.requests import OptimizeRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.expressions.predicates import parse_predicate, reads_only
from deltalite.spark.layout.z_order import Curve
from deltalite.spark.row_changes.selecting import PartitionKeys, selection
from deltalite.upkeep.optimize_candidates import candidates, files_to_pack, small_file_bytes, target_file_bytes
from deltalite.upkeep.optimize_plan import (
    HILBERT,
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_Z_ORDER_COLUMNS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """The order of rows in rewritten files.

    - `columns`: the logical paths of the columns of the curve.
    - `names`: the columns as the tags and the table's history name them.
    - `tags`: the tags of the files, without the id of their cube.
    - `provider`: the clustering provider of the files of a clustered table.
    """

    curve: Curve
    columns: tuple[Path, ...]
    names: tuple[str, ...]
    tags: Mapping[str, str]
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizePlan:
    """The files to rewrite, in batches.

    - `files`: a row for each candidate, at the position `Candidate.number`, with all columns of `ADD_TYPES`.
    - `batches`: the work of each commit, in order.
    - `target_bytes`: the target file size.
    - `order`: the order of rows, None if files are only packed.
    - `in_place`: whether each file is rewritten to one file, with the same order of rows and the same tags.
    """

    files: pa.Table
    batches: tuple[Batch, ...]
    target_bytes: int
    order: RowOrder | None = None
    in_place: bool = False


def plan_for(spark: SparkSession, request: OptimizeRequest, base: Snapshot) -> OptimizePlan:
    """Return the plan for a snapshot.

    Raises:
        InvalidRequestError: `where` or `z_order_by` does not fit the table.
    """
    order = _row_order(request, unchanged_target(base))
    files = _selected_files(spark, base, request.where).combine_chunks()  # one chunk makes take() fast
    target_bytes = target_file_bytes(base.configuration, request.target_file_size)
    max_deleted_ratio, cube_bytes = request.max_deleted_rows_ratio, request.max_commit_bytes
    if order is not None and order.provider is not None:
        file_candidates = _candidates(base, files)
        bins = plan_clustering(
            file_candidates,
            columns=order.names,
            provider=order.provider,
            target_bytes=target_bytes,
            max_deleted_ratio=max_deleted_ratio,
            cube_bytes=cube_bytes,
            full=request.full,
        )
    elif order is not None:
        file_candidates = _candidates(base, files)
        bins = plan_cubes(
            file_candidates,
            tags=order.tags,
            target_bytes=target_bytes,
            max_deleted_ratio=max_deleted_ratio,
            cube_bytes=cube_bytes,
        )
    else:
        min_bytes = small_file_bytes(target_bytes) if request.min_file_size is None else request.min_file_size
        files = files_to_pack(files, min_bytes)
        file_candidates = _candidates(base, files)
        bins = plan_bins(
            file_candidates, target_bytes=target_bytes, min_bytes=min_bytes, max_deleted_ratio=max_deleted_ratio
        )
    empty_files = [file for file in file_candidates if file.is_empty]
    planned_batches = batches(bins, empty_files, max_bytes=request.max_commit_bytes)
    return OptimizePlan(files=files, batches=tuple(planned_batches), target_bytes=target_bytes, order=order)


def plan_in_place(base: Snapshot, files: pa.Table, *, max_bytes: int) -> OptimizePlan:
    """Return the plan that rewrites each of the files separately.

    Args:
        base: the snapshot that has the files.
        files: rows of `base.files_with(tuple(ADD_TYPES))`.
        max_bytes: the limit on the bytes of old files in one commit.
    """
    files = files.combine_chunks()  # one chunk makes take() fast
    file_candidates = _candidates(base, files)
    empty_files = [file for file in file_candidates if file.is_empty]
    bins = [Bin(files=(file,)) for file in file_candidates if not file.is_empty]
    target_bytes = target_file_bytes(base.configuration, None)
    planned_batches = batches(bins, empty_files, max_bytes=max_bytes)
    return OptimizePlan(files=files, batches=tuple(planned_batches), target_bytes=target_bytes, in_place=True)


def check_same_order(plan: OptimizePlan, request: OptimizeRequest, target: WriteTarget) -> None:
    """Check that the order of the plan is also the right order for a newer version of the table.

    Raises:
        MetadataChangedException: the newer version needs another order.
    """
    if not plan.in_place and _row_order(request, target) != plan.order:
        raise MetadataChangedException(
            f"Another writer changed the clustering columns of {request.table}, or renamed one.",
            remedy="Run the task again: it starts from the newest version.",
        )


def _selected_files(spark: SparkSession, base: Snapshot, where: str | None) -> pa.Table:
    """Return the files of the partitions for which `where` is true, with all columns of `ADD_TYPES`."""
    all_files = base.files_with(tuple(ADD_TYPES))
    if where is None:
        return all_files
    predicate = parse_predicate(spark, where, base.schema, parameter="where")
    if not reads_only(predicate, base.partition_columns):
        names = ", ".join(base.partition_columns)
        raise InvalidRequestError(
            f"where ({where}) names other columns than the partition columns of {base.store.root}. The operation "
            "rewrites whole files. "
            + (f"The partition columns are {names}." if names else "The table has no partition columns."),
            remedy="Name partition columns only, or leave out where.",
        )
    keys = key_column(selection(spark, base, where, parameter="where").files)
    return all_files.filter(pc.is_in(key_column(all_files), value_set=keys.combine_chunks()))


def _candidates(base: Snapshot, files: pa.Table) -> list[Candidate]:
    return candidates(files, PartitionKeys(base).key)


def _row_order(request: OptimizeRequest, target: WriteTarget) -> RowOrder | None:
    """Return the order of the table's clustering or of the request; None if files are only packed."""
    if target.clustering:
        return _clustering_order(request, target)
    if request.full:
        raise InvalidRequestError(
            f"full=True orders a clustered table again, but {request.table} has no clustering columns.",
            remedy="Leave full out, or set clustering columns with DeltaTableOperator.",
        )
    if not request.z_order_by:
        return None
    columns = order_columns(request.z_order_by, target.table, parameter="z_order_by", max_columns=_MAX_Z_ORDER_COLUMNS)
    indexed_paths = {path for path, _ in indexed_columns(target.table, target.metadata.configuration).leaves}
    unindexed = next((column for column in columns if column.physical not in indexed_paths), None)
    if unindexed is not None:
        raise InvalidRequestError(
            f"z_order_by names {unindexed.name!r}. The table keeps no statistics of this column, so readers could skip "
            "no file (delta.dataSkippingStatsColumns, delta.dataSkippingNumIndexedCols).",
            remedy="Name a column with statistics, or add this column to the property.",
        )
    names = [".".join(column.physical) for column in columns]
    return RowOrder(
        curve=Curve.Z, columns=tuple(c.logical for c in columns), tags=cube_tags(names, Z_ORDER), names=tuple(names)
    )


def _clustering_order(request: OptimizeRequest, target: WriteTarget) -> RowOrder:
    """Return the order of a clustered table. The tags have the logical names of the columns, as in delta-spark."""
    for parameter, value in (("z_order_by", request.z_order_by), ("min_file_size", request.min_file_size)):
        if value:
            raise InvalidRequestError(
                f"{request.table} is a clustered table, so it does not allow {parameter}.",
                remedy=f"Leave {parameter} out. The task orders the rows by the clustering columns.",
            )
    columns = logical_paths(target.clustering, target.table)
    names = [column_text(path) for path in columns]
    return RowOrder(
        curve=Curve.HILBERT,
        columns=columns,
        tags=cube_tags(names, HILBERT),
        names=tuple(names),
        provider=CLUSTERING_PROVIDER,
    )
