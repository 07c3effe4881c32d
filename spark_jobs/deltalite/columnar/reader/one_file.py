"""The reader of one data file, batch by batch.

The steps for each batch:

1. Read the required Parquet leaves of the selected row groups.
2. Convert columns to the table's names and types. Partition columns are constants, and missing columns are null.
3. Select rows by position, by key and by predicate.
4. Return the result's columns of these rows.

`batch_sizes` determines the number of rows of a batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from deltalite.columnar.parquet.casts import Convert, LossyCastError, cast_without_loss
from deltalite.columnar.parquet.file_columns import FileColumns, FileField, Layout, MappedColumn
from deltalite.columnar.parquet.files import OpenedFile, open_data_file
from deltalite.columnar.parquet.legacy_calendar import (
    Calendar,
    UnconvertibleTimestampError,
    calendar_of,
    gregorian_dates,
    gregorian_timestamps,
)
from deltalite.columnar.parquet.variant_encoding import BrokenVariantError
from deltalite.columnar.predicates.outcomes import UNKNOWN_COLUMN, ColumnFacts
from deltalite.columnar.predicates.predicate import EVERYTHING, Path
from deltalite.columnar.predicates.row_filter import truth_values
from deltalite.columnar.reader.batch_sizes import rows_of_first_batch, rows_of_next_batch
from deltalite.columnar.reader.data_file import DataFile
from deltalite.columnar.reader.equality_deletes import any_deleted_mask
from deltalite.columnar.reader.footer_leaves import FooterLeaves, NoLeaf, is_julian
from deltalite.columnar.reader.plan import ReadPlan
from deltalite.columnar.reader.position_selection import RowSelection, load_selection
from deltalite.columnar.reader.projection import MetadataColumn
from deltalite.columnar.reader.row_groups import (
    RowGroups,
    facts_of_leaf,
    join_adjacent,
    row_groups,
    select_by_predicate,
    select_by_range,
)
from deltalite.columnar.skipping.file_facts import facts_from_partition
from deltalite.errors import CorruptDataFileError, CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.partition_values import partition_scalar, partition_text, with_location
from deltalite.protocol.paths import decode_path, is_absolute
from deltalite.sizes import counted

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from deltalite.storage.log_store import LogStore

# The facts about a column that the file does not have.
_NO_VALUE = ColumnFacts(may_be_value=False)


def read_file(store: LogStore, file: DataFile, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, or of a part of a file, in the result's schema.

    The batches are in the order of the file, and not empty.

    Raises:
        CorruptDataFileError: the file or its deletion vector is missing or damaged, or its types do not fit the table.
        CorruptLogError: a partition value is invalid.
        UnsupportedFeatureError: timestamps before 1900 need a time zone table that only Spark has.
        InvalidRequestError: a comparison of the predicate needs more than 76 digits.
        StorageError: the operating system or the network failed.
    """
    name = decode_path(file.path)
    constants = _constants(file, plan)
    with open_data_file(store, name) as opened:
        full_path = name if is_absolute(name) else f"{store.root}/{name}"
        source = _Source.of(opened, file, full_path, plan, constants)
        selection = load_selection(store, file, source.footer.num_rows, full_path)
        for groups in join_adjacent(source.groups_to_read(selection)):
            first_row = groups.rows.start
            for batch in source.batches(groups):
                rows = source.rows_of(batch, first_row, selection, name)
                first_row += batch.num_rows
                if rows.num_rows:
                    yield rows
            if first_row != groups.rows.stop:
                raise CorruptDataFileError(
                    f"The data file '{full_path}' has {counted(first_row - groups.rows.start, 'row')} where its "
                    f"footer says {len(groups.rows)}.",
                    remedy="Restore the file from a backup, or rewrite the rows from their source.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    """A partition value: its text in the log, and its Arrow scalar."""

    text: str | None
    scalar: pa.Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """An open file with the locations of the columns to read.

    - `mapped_columns`: the column of the file for each column of `plan.read_logical`; None if not from the file.
    - `batch_indexes`: the indexes of `mapped_columns` in a raw batch.
    - `constants`: the values of partition columns.
    - `full_path`: the path of the file in errors.
    """

    file: DataFile
    parquet: pq.ParquetFile
    footer: pq.FileMetaData
    size_bytes: int
    full_path: str
    plan: ReadPlan
    columns: FileColumns
    mapped_columns: tuple[MappedColumn | None, ...]
    batch_indexes: tuple[int | None, ...]
    constants: Mapping[str, _Constant]
    calendar: Calendar

    @classmethod
    def of(
        cls, opened: OpenedFile, file: DataFile, full_path: str, plan: ReadPlan, constants: Mapping[str, _Constant]
    ) -> _Source:
        footer = opened.parquet.metadata
        calendar = calendar_of(footer.metadata)
        columns = FileColumns(
            layout=plan.layout_cache.of(opened.parquet.schema_arrow),
            mode=plan.table.mode,
            file=full_path,
            leaf_conversion=lambda field, target: _calendar_conversion(field, target, calendar, footer),
        )
        mapped_columns = tuple(
            None if logical.name in constants else columns.find(logical, physical)
            for logical, physical in zip(plan.read_logical, plan.read_physical, strict=True)
        )
        return cls(
            file=file,
            parquet=opened.parquet,
            footer=footer,
            size_bytes=opened.size_bytes,
            full_path=full_path,
            plan=plan,
            columns=columns,
            mapped_columns=mapped_columns,
            batch_indexes=_batch_indexes(columns.layout, mapped_columns),
            constants=constants,
            calendar=calendar,
        )

    def groups_to_read(self, selection: RowSelection) -> list[RowGroups]:
        """Return the row groups to read."""
        start, length = self.file.start, self.file.length
        groups = select_by_range(row_groups(self.footer), self.footer, start, length, self.size_bytes)
        if self.plan.predicate != EVERYTHING:
            groups = select_by_predicate(groups, self.plan.predicate, self._facts)
        return [group for group in groups if selection.may_have_rows(group.rows, with_deleted=self.plan.keeps_deleted)]

    def batches(self, groups: RowGroups) -> Iterator[pa.RecordBatch]:
        """Yield raw batches of adjacent row groups, with only the required leaves.

        Each batch determines the size of the next batch: Arrow's reader reads the batch size again before each batch.
        """
        columns = self.mapped_columns
        leaves = sorted({leaf for column in columns if column is not None for leaf in column.leaves})
        reader = self.parquet.reader
        filler_bytes = sum(self._filler(index, 1).nbytes for index, column in enumerate(columns) if column is None)
        # `ParquetFile.iter_batches` takes dotted paths, which are ambiguous if a name contains a dot.
        batches = reader.iter_batches(
            rows_of_first_batch(self.plan.limits, self.footer, groups, leaves, filler_bytes),
            row_groups=list(groups.groups),
            column_indices=leaves,
            use_threads=self.plan.use_threads,
        )
        for batch in batches:
            reader.set_batch_size(rows_of_next_batch(self.plan.limits, batch, filler_bytes))
            yield batch

    def rows_of(self, batch: pa.RecordBatch, first_row: int, selection: RowSelection, name: str) -> pa.RecordBatch:
        """Return the result's rows of a raw batch that begins at the position `first_row` of the file.

        `name` is the decoded path of the file, the value of `MetadataColumn.FILE`.
        """
        plan, count = self.plan, batch.num_rows
        converted = assemble_batch(
            [self._column(batch, index) for index in range(len(self.mapped_columns))], plan.read_arrow, count
        )
        not_deleted = selection.not_deleted_mask(first_row, count)
        if plan.deletes:
            not_deleted_by_key = pc.invert(any_deleted_mask(plan.deletes, converted))
            not_deleted = not_deleted_by_key if not_deleted is None else pc.and_(not_deleted, not_deleted_by_key)
        optional_masks = [selection.requested_mask(first_row, count), None if plan.keeps_deleted else not_deleted]
        if plan.predicate != EVERYTHING:
            optional_masks.append(truth_values(converted, plan.predicate))
        result = converted if plan.reads_only_result_columns else self._result(converted, first_row, name, not_deleted)
        masks = [mask for mask in optional_masks if mask is not None]
        return result.filter(reduce(pc.and_kleene, masks)) if masks else result

    def _result(
        self, converted: pa.RecordBatch, first_row: int, name: str, not_deleted: pa.BooleanArray | None
    ) -> pa.RecordBatch:
        """Return the result's columns, in order, of all rows of a batch."""
        items = zip(self.plan.projection.items, self.plan.result, strict=True)
        arrays = [
            self._metadata_values(item, converted, first_row, name, not_deleted)
            if isinstance(item, MetadataColumn)
            else cast_without_loss(converted.column(item.name), target.type)
            for item, target in items
        ]
        return assemble_batch(arrays, self.plan.result, converted.num_rows)

    def _metadata_values(
        self,
        item: MetadataColumn,
        converted: pa.RecordBatch,
        first_row: int,
        name: str,
        not_deleted: pa.BooleanArray | None,
    ) -> pa.Array:
        count, row_ids = converted.num_rows, self.plan.row_ids
        match item:
            case MetadataColumn.ROW_INDEX:
                return _positions(first_row, count)
            case MetadataColumn.FILE:
                return pa.repeat(pa.scalar(name, pa.string()), count)
            case MetadataColumn.IS_DELETED:
                return pa.repeat(pa.scalar(False), count) if not_deleted is None else pc.invert(not_deleted)
            case MetadataColumn.ROW_ID if row_ids is not None:
                base_row_id = pa.scalar(self.file.base_row_id, pa.int64())
                row_id_by_position = pc.add(_positions(first_row, count), base_row_id)
                return pc.coalesce(converted.column(row_ids.row_id), row_id_by_position)
            case MetadataColumn.ROW_COMMIT_VERSION if row_ids is not None:
                version = pa.scalar(self.file.commit_version, pa.int64())
                return pc.coalesce(converted.column(row_ids.commit_version), version)
            case _:
                raise AssertionError(f"plan_reading accepted {item} without row ids")

    def _column(self, batch: pa.RecordBatch, index: int) -> pa.Array:
        field, column, batch_index = (
            self.plan.read_arrow.field(index),
            self.mapped_columns[index],
            self.batch_indexes[index],
        )
        if column is None or batch_index is None:
            return self._filler(index, batch.num_rows)
        stored = batch.column(batch_index)
        try:
            return column.convert(stored)
        except LossyCastError as error:
            raise CorruptDataFileError(
                f"Column '{field.name}' of the data file '{self.full_path}' is {stored.type}, but the table has "
                f"{field.type}: {error}.",
                remedy="Rewrite the file with the table's type, or read it with the engine that wrote it.",
            ) from error
        except BrokenVariantError as error:
            raise CorruptDataFileError(
                f"Column '{field.name}' of the data file '{self.full_path}' has a variant that cannot be rebuilt: "
                f"{error}.",
                remedy="Rewrite the file with the engine that wrote it, or leave the column out.",
            ) from error
        except UnconvertibleTimestampError as error:
            raise UnsupportedFeatureError(
                f"Column '{field.name}' of the data file '{self.full_path}' cannot be read: {error}.",
                remedy="Read the file with Spark in the time zone of its writer.",
            ) from error

    def _filler(self, index: int, count: int) -> pa.Array:
        """Return `count` values of a column that does not come from the file."""
        field = self.plan.read_arrow.field(index)
        if field.name in self.constants:
            return pa.repeat(self.constants[field.name].scalar, count)
        return pa.nulls(count, field.type)

    def _facts(self, group: int, path: Path) -> ColumnFacts:
        """Return the facts about a column of the predicate in one row group."""
        top_field = self.plan.read_logical.find(path[0])
        if top_field is not None and top_field.name in self.constants:
            return facts_from_partition(self.constants[top_field.name].text, top_field.type)
        leaves = FooterLeaves(columns=self.columns, footer=self.footer, calendar=self.calendar)
        match leaves.find(path, self.plan.read_logical, self.plan.read_physical):
            case NoLeaf.ABSENT:
                return _NO_VALUE
            case NoLeaf.UNKNOWN:
                return UNKNOWN_COLUMN
            case leaf:
                return facts_of_leaf(self.footer, group, leaf)


def assemble_batch(arrays: Sequence[pa.Array], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """Assemble a record batch, which has `num_rows` rows even without columns."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    return pa.RecordBatch.from_struct_array(pa.nulls(num_rows, pa.struct([])))


def _positions(first_row: int, count: int) -> pa.Int64Array:
    return pa.array(range(first_row, first_row + count), pa.int64())


def _batch_indexes(layout: Layout, columns: Sequence[MappedColumn | None]) -> tuple[int | None, ...]:
    """Return the index of each column in a raw batch, which has the columns to read in the order of the file."""
    numbers = [None if column is None else bisect_right(layout.first_leaves, column.leaves[0]) for column in columns]
    columns_in_batch = sorted({number for number in numbers if number is not None})
    indexes = {number: index for index, number in enumerate(columns_in_batch)}
    return tuple(None if number is None else indexes[number] for number in numbers)


def _constants(file: DataFile, plan: ReadPlan) -> dict[str, _Constant]:
    """Return the values of the partition columns to read, by logical name."""
    keys = plan.table.partition_keys
    constants = {}
    for logical, physical in zip(plan.read_logical, plan.read_physical, strict=True):
        if physical.name in keys:
            text = partition_text(file.partition_values, keys[physical.name])
            try:
                scalar = partition_scalar(text, logical.type)
            except CorruptLogError as error:
                raise with_location(error, logical.name, file.path) from error
            constants[logical.name] = _Constant(text=text, scalar=scalar)
    return constants


def _calendar_conversion(
    field: FileField, target: pa.DataType, calendar: Calendar, footer: pq.FileMetaData
) -> Convert | None:
    """Return the conversion of a leaf from the Julian calendar; None if the file has Gregorian days in the leaf."""
    if not is_julian(field, calendar, footer):
        return None
    if types.is_date(field.type):
        return lambda array: cast_without_loss(gregorian_dates(array), target)
    micros = pa.timestamp("us", field.type.tz)
    return lambda array: cast_without_loss(
        gregorian_timestamps(cast_without_loss(array, micros), calendar.time_zone), target
    )
