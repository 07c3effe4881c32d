"""What a read asks of every file: decided once, on values, before any file is open.

The constructor function is the gate: columns exist, the predicate can be evaluated and the deletes have keys of the
table's types. `read` is the part of the table that files are asked for, which is the result's columns together with
those that the predicate and the deletes look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from deltalite.columnar.batch_sizes import BatchLimits
from deltalite.columnar.binding import bind
from deltalite.columnar.equality_deletes import BoundDeletes, EqualityDeletes, bind_deletes
from deltalite.columnar.file_columns import Layouts
from deltalite.columnar.predicate import EVERYTHING, Predicate, columns_of
from deltalite.columnar.projection import MetadataColumn, Projection, leaf_paths, project, restrict
from deltalite.columnar.row_filter import truths
from deltalite.errors import InvalidRequestError
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import StructType

DEFAULT_BATCH_SIZE = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A checked request; made by `plan_reading`.

    `read` and `read_physical` are the same columns in the same order, as users and as files name them. `read_arrow` is
    their Arrow schema. `use_threads`: Arrow decodes columns in parallel. All files of the reading share `layouts`.
    """

    table: TableSchema
    projection: Projection
    result: pa.Schema
    read: StructType
    read_physical: StructType
    read_arrow: pa.Schema
    predicate: Predicate
    deletes: tuple[BoundDeletes, ...]
    limits: BatchLimits
    use_threads: bool
    layouts: Layouts = field(default_factory=Layouts, compare=False)

    @property
    def is_whole(self) -> bool:
        """Whether what files are asked for is the result as it stands."""
        return self.projection.items == self.read.fields

    @property
    def keeps_deleted(self) -> bool:
        """Whether deleted rows are given too, and said to be."""
        return self.projection.has(MetadataColumn.IS_DELETED)


def plan_reading(
    table: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    equality_deletes: Sequence[EqualityDeletes] = (),
    limits: BatchLimits,
    use_threads: bool = True,
) -> Reading:
    """The request made ready; see `read_files` for the arguments.

    Raises:
        InvalidRequestError: a column does not exist, the predicate cannot be evaluated, or a key has no column.
    """
    if limits.rows < 1:
        raise InvalidRequestError(
            f"batch_size is {limits.rows}, which is not positive.", remedy="Give a positive number of rows."
        )
    schema = table.logical
    projection = project(columns, schema)
    bound = EVERYTHING if predicate is None else bind(predicate, schema)
    deletes = tuple(bind_deletes(each, schema) for each in equality_deletes if each.keys.num_rows)
    paths = [*leaf_paths(projection.fields), *columns_of(bound), *(path for each in deletes for path in each.paths)]
    read = restrict(schema, paths)
    arrow = schema_to_arrow(read)
    # What the filter cannot evaluate is refused here, before any file is open.
    truths(pa.RecordBatch.from_pylist([], schema=arrow), bound)
    return Reading(
        table=table,
        projection=projection,
        result=projection.arrow,
        read=read,
        read_physical=TableSchema(logical=read, mode=table.mode).physical,
        read_arrow=arrow,
        predicate=bound,
        deletes=deletes,
        limits=limits,
        use_threads=use_threads,
    )
