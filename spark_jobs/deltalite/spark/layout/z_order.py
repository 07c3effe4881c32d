"""Rows ordered along a Z or Hilbert curve, so that files and row groups hold rows that are similar in several columns.

1. A sample of each cube (files that are ordered together) gives the bounds of ranges for each column. Each value
   becomes the number of its range. A null is below all values.
2. The bits of these numbers give the row's place on the curve: interleaved on a Z curve, and by `hilbert_table` on a
   Hilbert curve.
3. Bounds from the same sample assign places to files. Rows are shuffled by file, and sorted by place within a file.

A binary search with steps in Spark SQL finds the numbers, so executors run no Python. One query orders all cubes. The
steps are SQL text, because the driver would call the JVM several times for each operator of a `Column`.
delta-spark: MultiDimClustering, which adds a Catalyst expression for the interleaved bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql.types import StringType

from deltalite.columnar.predicates.predicate import Path
from deltalite.protocol.row_tracking import row_id_names
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructType
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import column_named, unused_name
from deltalite.spark.layout.hilbert import hilbert_table
from deltalite.spark.layout.rearranging import keys_of_partitions
from deltalite.spark.runtime.computed_once import compute_once
from deltalite.spark.scan.frame import scan_with_row_ids

_MAX_SAMPLED_ROWS = 2_000_000
_MIN_SAMPLED_ROWS_PER_CUBE, _MAX_SAMPLED_ROWS_PER_CUBE = 1_000, 50_000
# Limits for the bits of a range's number. All columns together get the bits that distinguish the row groups, and some
# more. Every bit costs a step for every row.
_MIN_BITS, _MAX_BITS, _ADDITIONAL_BITS = 3, 10, 4
ROW_GROUPS_OF_FILE = 8
# Pseudo-random bits after the place, because many rows may share one place.
_RANDOM_BITS = 10
# Each executor holds the bounds of all cubes.
_MAX_BOUNDS = 1_000_000
_MAX_BOUND_CHARACTERS = 64
_SEED = 42


class Curve(Enum):
    """A curve that orders points of several numbers. With one column, both curves give the order of the column."""

    Z = auto()
    HILBERT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cube:
    """Files (by number) that are ordered together and written as `outputs` new files.

    `row_count` is the number of live rows, or None if it is unknown.
    """

    files: Sequence[int]
    outputs: int
    row_count: int | None


def ordered_cubes(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table,
    cubes: Sequence[Cube],
    columns: Sequence[Path],
    *,
    curve: Curve = Curve.Z,
) -> DataFrame:
    """Return the live rows of the cubes: one sorted partition for each output file, in the order of the cubes.

    The result has the columns of `scan_with_row_ids`.

    Raises:
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan`.
        SourceError: a row cannot be computed for the sample.
    """
    max_outputs = max(cube.outputs for cube in cubes)
    order = _Order(snapshot, curve, column_count=len(columns), cube_count=len(cubes), max_outputs=max_outputs)
    rows = _scan_cubes(spark, snapshot, files, cubes, columns, order)
    sample = compute_once(
        rows.where(F.rand(_SEED) < column_named(order.sampling_rate)).select(
            column_named(order.cube), *map(column_named, order.values)
        )
    )
    partition_keys = _partition_keys(spark, cubes, order)
    bounds = order.bounds(sample)
    if order.file_steps:
        sample_places = order.with_places(sample.join(F.broadcast(bounds), order.cube), F.rand(_SEED))
        bounds = bounds.join(F.broadcast(order.file_bounds(sample_places, partition_keys)), order.cube)
    # The left join keeps a cube without a sampled row. The rows of such a cube lie below all bounds.
    bounds_of_cubes = F.broadcast(partition_keys.join(F.broadcast(bounds), order.cube, "left_outer"))
    with_places = order.with_places(rows.join(bounds_of_cubes, order.cube), order.hash_fraction())
    file_count = sum(cube.outputs for cube in cubes)
    names = [*snapshot.schema.names, *row_id_names(snapshot.row_ids)]
    return (
        order.with_file_keys(with_places)
        .repartition(file_count, column_named(order.key))
        .sortWithinPartitions(column_named(order.place))
        .select(*map(column_named, names))
    )


def _scan_cubes(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table,
    cubes: Sequence[Cube],
    columns: Sequence[Path],
    order: _Order,
) -> DataFrame:
    """Return the rows, with the number of their cube, the sampling rate of the cube, and the values to order by."""
    cube_files = files.take(pa.array([number for cube in cubes for number in cube.files], pa.int64()))
    rates = _sampling_rates(cubes)
    rows = scan_with_row_ids(
        spark,
        snapshot,
        cube_files,
        by_file={
            order.cube: pa.array([n for n, cube in enumerate(cubes) for _ in cube.files], pa.int32()),
            order.sampling_rate: pa.array([rates[n] for n, cube in enumerate(cubes) for _ in cube.files], pa.float64()),
        },
    )
    for name, path in zip(order.values, columns, strict=True):
        rows = rows.withColumn(name, _column_at(path))
    return rows


def _column_at(path: Path) -> Column:
    column = column_named(path[0])
    for member in path[1:]:
        column = column.getField(member)
    return column


def _sampling_rates(cubes: Sequence[Cube]) -> list[float]:
    """Return the sampling rate of each cube."""
    sample_rows = max(_MAX_SAMPLED_ROWS // len(cubes), _MIN_SAMPLED_ROWS_PER_CUBE)
    sample_rows = min(sample_rows, _MAX_SAMPLED_ROWS_PER_CUBE)
    return [1.0 if not cube.row_count else min(1.0, sample_rows / cube.row_count) for cube in cubes]


def _partition_keys(spark: SparkSession, cubes: Sequence[Cube], order: _Order) -> DataFrame:
    """Return, for each cube, the keys that send rows to the partitions of its files."""
    keys = iter(keys_of_partitions(sum(cube.outputs for cube in cubes)))
    keys_of_cubes = [[next(keys) for _ in range(cube.outputs)] for cube in cubes]
    table = {
        order.cube: pa.array(range(len(cubes)), pa.int32()),
        order.keys: pa.array(keys_of_cubes, pa.list_(pa.int32())),
    }
    return spark.createDataFrame(pa.table(table))


class _Order:
    """The names of the helper columns, and the expressions over these columns. SQL text need not quote the names."""

    def __init__(
        self, snapshot: Snapshot, curve: Curve, *, column_count: int, cube_count: int, max_outputs: int
    ) -> None:
        def unused(stem: str) -> str:
            return unused_name(snapshot.schema, stem)

        self.cube, self.sampling_rate = unused("cube"), unused("sampling_rate")
        self.place, self.key = unused("place"), unused("key")
        self.keys, self._file_bounds = unused("keys"), unused("file_bounds")
        self.values = [unused(f"value{n}") for n in range(column_count)]
        self._bounds = [unused(f"bounds{n}") for n in range(column_count)]
        self._ranges = [unused(f"range{n}") for n in range(column_count)]
        self._scratch = unused("scratch")  # `file_bounds` and `with_file_keys` use it for different values
        self._state = unused("state")
        self._curve = curve if column_count > 1 else Curve.Z
        self._hashed_columns = [*self.values, *(f.name for f in snapshot.schema if _can_hash(f.type))]
        useful_bits = math.ceil((math.log2(ROW_GROUPS_OF_FILE * max_outputs) + _ADDITIONAL_BITS) / column_count)
        affordable_bits = math.floor(math.log2(_MAX_BOUNDS / (cube_count * column_count)))
        self._bits = max(1, min(max(useful_bits, _MIN_BITS), _MAX_BITS, affordable_bits))
        self.file_steps = math.ceil(math.log2(max_outputs)) if max_outputs > 1 else 0

    def bounds(self, sample: DataFrame) -> DataFrame:
        """Return the bounds between the ranges, for each cube and column. `n` ranges have `n - 1` bounds."""
        sorted_lists = []
        for value, name in zip(self.values, self._bounds, strict=True):
            column = column_named(value)
            if isinstance(sample.schema[value].dataType, StringType):
                column = F.substring(column, 1, _MAX_BOUND_CHARACTERS)
            sorted_lists.append(F.sort_array(F.collect_list(column)).alias(name))
        sorted_values = compute_once(sample.groupBy(column_named(self.cube)).agg(*sorted_lists))
        return sorted_values.withColumns(
            {name: _dividing_values(column_named(name), 2**self._bits) for name in self._bounds}
        )

    def hash_fraction(self) -> Column:
        """Return a hash of the row, from 0 to 1, so that a repeated Spark task sends the row to the same file."""
        hash_count = 2**_RANDOM_BITS
        row_hash = F.xxhash64(*map(column_named, self._hashed_columns))
        fraction: Column = F.pmod(row_hash, F.lit(hash_count)) / hash_count
        return fraction

    def with_places(self, rows: DataFrame, fraction: Column) -> DataFrame:
        """Add the place on the curve to rows that have the bounds of their cube.

        `fraction`, an evenly distributed number from 0 to 1, orders rows of the same place.
        """
        searches = dict(zip(self._ranges, zip(self.values, self._bounds, strict=True), strict=True))
        with_ranges = _with_search_results(rows, searches, self._bits)
        with_place = (
            self._with_hilbert_places(with_ranges) if self._curve is Curve.HILBERT else self._with_z_places(with_ranges)
        )
        random_bits = (fraction * F.lit(2**_RANDOM_BITS)).cast("bigint")
        return with_place.withColumn(
            self.place, F.shiftleft(column_named(self.place), _RANDOM_BITS).bitwiseOR(random_bits)
        )

    def _with_z_places(self, rows: DataFrame) -> DataFrame:
        place = "0L"
        # The place takes the highest bit of each column first, then the next bit of each column. Of the bits in the
        # same position, the bit of the first column comes first.
        for bit in reversed(range(self._bits)):
            place = self._with_bits(place, bit)
        return rows.withColumn(self.place, F.expr(place))

    def _with_hilbert_places(self, rows: DataFrame) -> DataFrame:
        """Take a step of the table for each bit. Each step reads the columns of the step before."""
        table = hilbert_table(len(self._ranges))
        digits, next_states = (_sql_array(numbers) for numbers in (table.digits, table.next_states))
        rows = rows.withColumns({self.place: F.lit(0).cast("bigint"), self._state: F.lit(0)})
        for bit in reversed(range(self._bits)):
            index = f"CAST({self._with_bits(self._state, bit)} AS INT)"
            place = f"shiftleft({self.place}, {table.dimensions}) | get({digits}, {index})"
            rows = rows.withColumns({self.place: F.expr(place), self._state: F.expr(f"get({next_states}, {index})")})
        return rows

    def _with_bits(self, number: str, bit: int) -> str:
        """Return the SQL of a number, followed by one bit of the number of each range."""
        for name in self._ranges:
            number = f"(shiftleft({number}, 1) | (shiftright({name}, {bit}) & 1))"
        return number

    def file_bounds(self, sample_places: DataFrame, partition_keys: DataFrame) -> DataFrame:
        """Return the places between the files of each cube, padded with a place above all other places."""
        sorted_places = F.sort_array(F.collect_list(column_named(self.place)))
        places = compute_once(sample_places.groupBy(column_named(self.cube)).agg(sorted_places.alias(self._scratch)))
        cubes = places.join(F.broadcast(partition_keys), self.cube)
        bounds = _dividing_values(column_named(self._scratch), F.size(column_named(self.keys)))
        padding = F.array_repeat(F.lit(2**62).cast("bigint"), 2**self.file_steps)
        return cubes.select(column_named(self.cube), F.concat(bounds, padding).alias(self._file_bounds))

    def with_file_keys(self, rows: DataFrame) -> DataFrame:
        """Add the key of the output file to rows that have places."""
        keys = column_named(self.keys)
        if not self.file_steps:
            return rows.withColumn(self.key, F.get(keys, F.lit(0)))
        with_numbers = _with_search_results(rows, {self._scratch: (self.place, self._file_bounds)}, self.file_steps)
        return with_numbers.withColumn(self.key, F.get(keys, column_named(self._scratch).cast("int")))


def _can_hash(data_type: DataType) -> bool:
    """Whether Spark can hash the type. Spark cannot hash maps and variants."""
    match data_type:
        case StructType():
            return all(_can_hash(field.type) for field in data_type)
        case ArrayType(element):
            return _can_hash(element)
        case MapType():
            return False
        case _:
            return data_type != PrimitiveType("variant")


def _dividing_values(values: Column, parts: int | Column) -> Column:
    """Return the values that divide sorted values into equal parts; empty if there are no values.

    `values` must be a plain column, because an expression would be computed again for each part.
    """
    parts = F.lit(parts) if isinstance(parts, int) else parts
    numbers = F.sequence(F.lit(1), parts - 1)
    bounds = F.transform(numbers, lambda n: F.get(values, F.floor(n * F.size(values) / parts).cast("int")))
    empty = F.slice(values, 1, 0)
    return F.when((F.size(values) > 0) & (parts > 1), bounds).otherwise(empty)


def _with_search_results(rows: DataFrame, searches: dict[str, tuple[str, str]], steps: int) -> DataFrame:
    """Return the rows with a column for each search: the number of sorted bounds that a value reaches.

    `searches` has the column of the value and the column of the bounds, by the name of the added column. The result is
    below 2**`steps`. Each step reads the columns of the step before, so no expression is duplicated.
    """
    result = rows.withColumns({name: F.lit(0).cast("bigint") for name in searches})
    for step in reversed(range(steps)):
        half = 2**step
        result = result.withColumns(
            {
                name: F.expr(f"{name} + IF({value} >= get({bounds}, CAST({name} + {half - 1} AS INT)), {half}, 0)")
                for name, (value, bounds) in searches.items()
            }
        )
    return result


def _sql_array(numbers: Sequence[int]) -> str:
    return f"array({', '.join(map(str, numbers))})"
