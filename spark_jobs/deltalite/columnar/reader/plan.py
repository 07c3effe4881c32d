"""The plan of a read, which is made and validated once before any file is open.

`plan_reading` checks that columns exist, that the predicate can be evaluated, and that the keys of deletes have the
table's types. The columns to read are the columns of the result, and the columns that the predicate and the deletes
need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from deltalite.columnar.parquet.file_columns import LayoutCache
from deltalite.columnar.predicates.binding import bind
from deltalite.columnar.predicates.predicate import EVERYTHING, Predicate, columns_of
from deltalite.columnar.predicates.row_filter import truth_values
from deltalite.columnar.reader.batch_sizes import BatchLimits
from deltalite.columnar.reader.equality_deletes import BoundDeletes, EqualityDeletes, bind_deletes
from deltalite.columnar.reader.projection import MetadataColumn, Projection, leaf_paths, project, restrict
from deltalite.errors import InvalidRequestError
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.row_tracking import RowIdColumns
from deltalite.protocol.schema import StructType

DEFAULT_BATCH_SIZE = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The validated plan of a read, from `plan_reading`.

    - `result`: the Arrow schema of the result.
    - `read_logical`, `read_physical`: the columns to read, with logical and physical names. If the result has row ids,
      the columns of `row_ids` are at the end.
    - `read_arrow`: the Arrow schema of the columns to read.
    - `use_threads`: whether Arrow decodes columns in parallel.
    - `layout_cache`: a cache that all files share.
    """

    table: TableSchema
    projection: Projection
    result: pa.Schema
    read_logical: StructType
    read_physical: StructType
    read_arrow: pa.Schema
    predicate: Predicate
    deletes: tuple[BoundDeletes, ...]
    limits: BatchLimits
    use_threads: bool
    row_ids: RowIdColumns | None = None
    layout_cache: LayoutCache = field(default_factory=LayoutCache, compare=False)

    @property
    def reads_only_result_columns(self) -> bool:
        """Whether the columns to read are exactly the columns of the result."""
        return self.projection.items == self.read_logical.fields

    @property
    def keeps_deleted(self) -> bool:
        """Whether the result includes deleted rows and marks them."""
        return self.projection.has(MetadataColumn.IS_DELETED)


def plan_reading(
    table: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    equality_deletes: Sequence[EqualityDeletes] = (),
    row_ids: RowIdColumns | None = None,
    limits: BatchLimits,
    use_threads: bool = True,
) -> ReadPlan:
    """Validate the arguments of a read and return its plan; see `read_files` for the arguments.

    Raises:
        InvalidRequestError: `columns` is invalid, the predicate cannot be evaluated, a key of a delete does not fit its
            column, the table has no row ids, or a batch would have no rows.
    """
    if limits.rows < 1:
        raise InvalidRequestError(
            f"batch_size is {limits.rows}, which is not positive.", remedy="Give a positive number of rows."
        )
    schema = table.logical
    projection = project(columns, schema)
    bound_predicate = EVERYTHING if predicate is None else bind(predicate, schema)
    deletes = tuple(bind_deletes(delete, schema) for delete in equality_deletes if delete.keys.num_rows)
    key_paths = [path for delete in deletes for path in delete.paths]
    read_logical = restrict(schema, [*leaf_paths(projection.fields), *columns_of(bound_predicate), *key_paths])
    if projection.has_row_ids:
        if row_ids is None:
            raise InvalidRequestError(
                "The table has no row ids, because row tracking is not enabled.",
                remedy="Leave out the columns _row_id and _row_commit_version.",
            )
        read_logical = StructType((*read_logical.fields, *row_ids.fields))
    read_arrow = schema_to_arrow(read_logical)
    # The evaluation on an empty batch raises an error for an unsupported predicate before any file is open.
    truth_values(pa.RecordBatch.from_pylist([], schema=read_arrow), bound_predicate)
    return ReadPlan(
        table=table,
        projection=projection,
        result=projection.arrow,
        read_logical=read_logical,
        read_physical=TableSchema(logical=read_logical, mode=table.mode).physical,
        read_arrow=read_arrow,
        predicate=bound_predicate,
        deletes=deletes,
        limits=limits,
        use_threads=use_threads,
        row_ids=row_ids,
    )
