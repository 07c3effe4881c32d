"""The plan of an optimize on one snapshot: the request is checked against the table, then planned.

Requests that the table cannot serve are refused here: a `where` that does not select whole partitions, or a column
without bounds in file statistics. The rows of a clustered table are ordered by its clustering columns. Protocol:
Clustered Table, Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.skipping.record_counts import num_records
from deltalite.columnar.statistics.footer import indexed_columns
from deltalite.commands.common.order_columns import order_columns
from deltalite.commands.common.write_target import WriteTarget, unchanged_target
from deltalite.commands.optimize.plan import (
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
from deltalite.errors import InvalidRequestError, MetadataChangedException
from deltalite.log.file_table import ADD_TYPES, key_column
from deltalite.protocol import properties as props
from deltalite.protocol.clustering import CLUSTERING_PROVIDER, column_text, logical_paths
from deltalite.requests import OptimizeRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.expressions.predicates import parse_predicate, reads_only
from deltalite.spark.layout.z_order import Curve
from deltalite.spark.row_changes.selecting import PartitionKeys, selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULT_TARGET_BYTES = 256 * 1024 * 1024
# The share of the target size from which on a file is large enough.
_LARGE_ENOUGH = 0.75
_MAX_COLUMNS = 16


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
    """The batches in order. The number of a candidate is its row in `files`, which has all columns of `ADD_TYPES`.

    `target` is the target file size in bytes. `order` is None if files are only packed. With `in_place`, each file is
    written again by itself, with the order of its rows and its tags.
    """

    files: pa.Table
    batches: tuple[Batch, ...]
    target: int
    order: RowOrder | None = None
    in_place: bool = False


def plan_for(spark: SparkSession, request: OptimizeRequest, base: Snapshot) -> OptimizePlan:
    """Return the plan for a snapshot.

    Raises:
        InvalidRequestError: the table cannot serve `where` or `z_order_by`.
    """
    table = unchanged_target(base)
    order = _order(request, table)
    chosen = _chosen(spark, base, request.where).combine_chunks()  # one chunk makes take() fast
    target = request.target_file_size or props.TARGET_FILE_SIZE.of(base.configuration) or _DEFAULT_TARGET_BYTES
    ratio, cube_bytes = request.max_deleted_rows_ratio, request.max_commit_bytes
    if order is not None and order.provider is not None:
        candidates = _candidates(base, chosen)
        bins = plan_clustering(
            candidates,
            columns=order.names,
            provider=order.provider,
            target=target,
            ratio=ratio,
            cube_bytes=cube_bytes,
            full=request.full,
        )
    elif order is not None:
        candidates = _candidates(base, chosen)
        bins = plan_cubes(candidates, tags=order.tags, target=target, ratio=ratio, cube_bytes=cube_bytes)
    else:
        smallest = request.min_file_size if request.min_file_size is not None else int(target * _LARGE_ENOUGH)
        has_vector = pc.is_valid(chosen["deletionVector"])
        chosen = chosen.filter(pc.or_(pc.less(chosen["size"], smallest), has_vector)).combine_chunks()
        candidates = _candidates(base, chosen)
        bins = plan_bins(candidates, target=target, smallest=smallest, ratio=ratio)
    empty = [file for file in candidates if file.is_empty]
    planned_batches = batches(bins, empty, most_bytes=request.max_commit_bytes)
    return OptimizePlan(files=chosen, batches=tuple(planned_batches), target=target, order=order)


def plan_in_place(base: Snapshot, files: pa.Table, *, most_bytes: int) -> OptimizePlan:
    """Return the plan that writes each of the files again by itself.

    Args:
        base: the snapshot that has the files.
        files: rows of `base.files_with(tuple(ADD_TYPES))`.
        most_bytes: the most bytes of old files in one commit.
    """
    files = files.combine_chunks()  # one chunk makes take() fast
    candidates = _candidates(base, files)
    empty = [file for file in candidates if file.is_empty]
    bins = [Bin(files=(file,)) for file in candidates if not file.is_empty]
    target = props.TARGET_FILE_SIZE.of(base.configuration) or _DEFAULT_TARGET_BYTES
    planned_batches = batches(bins, empty, most_bytes=most_bytes)
    return OptimizePlan(files=files, batches=tuple(planned_batches), target=target, in_place=True)


def check_same_order(plan: OptimizePlan, request: OptimizeRequest, target: WriteTarget) -> None:
    """Check that a newer version of the table still asks for the order of the plan.

    Raises:
        MetadataChangedException: it asks for another order.
    """
    if not plan.in_place and _order(request, target) != plan.order:
        raise MetadataChangedException(
            f"Another writer changed the clustering columns of {request.table}, or renamed one.",
            remedy="Run the task again: it starts from the newest version.",
        )


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
        files["clusteringProvider"].to_pylist(),
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
            clustering_provider=provider,
        )
        for number, (path, values, size, modified, records, vector, tags, provider) in enumerate(
            zip(*columns, strict=True)
        )
    ]


def _order(request: OptimizeRequest, target: WriteTarget) -> RowOrder | None:
    """Return the order that the request or the clustering of the table asks for; None if files are only packed."""
    if target.clustering:
        return _clustering(request, target)
    if request.full:
        raise InvalidRequestError(
            f"full=True orders a clustered table again, and {request.table} has no clustering columns.",
            remedy="Leave it out, or set clustering columns with DeltaTableOperator.",
        )
    if not request.z_order_by:
        return None
    columns = order_columns(request.z_order_by, target.table, parameter="z_order_by", max_columns=_MAX_COLUMNS)
    indexed = {leaf for leaf, _ in indexed_columns(target.table, target.metadata.configuration).leaves}
    unindexed = next((column for column in columns if column.physical not in indexed), None)
    if unindexed is not None:
        raise InvalidRequestError(
            f"z_order_by names {unindexed.name!r}, for which the table keeps no statistics "
            "(delta.dataSkippingStatsColumns, delta.dataSkippingNumIndexedCols). Readers could skip no file by it.",
            remedy="Name a column with statistics, or add this column to the property.",
        )
    names = [".".join(column.physical) for column in columns]
    return RowOrder(
        curve=Curve.Z, columns=tuple(c.logical for c in columns), tags=cube_tags(names, Z_ORDER), names=tuple(names)
    )


def _clustering(request: OptimizeRequest, target: WriteTarget) -> RowOrder:
    """Return the order of a clustered table. delta-spark names the columns by their logical names in the tags."""
    for parameter, is_given in (("z_order_by", bool(request.z_order_by)), ("min_file_size", request.min_file_size)):
        if is_given:
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
