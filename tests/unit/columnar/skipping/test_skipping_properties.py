"""Data skipping never loses a row.

The tests evaluate random predicates on every row, without statistics. Skipping must keep each file with a matching row.

Each case has a random schema, rows, a predicate and a writer. Partition values have several spellings. Statistics may
be truncated, rounded, wide or missing. Columns may be renamed or widened. The library computes its statistics from
Parquet files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deltalite.columnar.predicates.outcomes import FALSE, NULL, TRUE
from deltalite.columnar.predicates.predicate import And, Comparison, In, Not, Operator, Or, Predicate, Unknown
from deltalite.columnar.reader.data_file import DataFile
from deltalite.columnar.reader.projection import MetadataColumn
from deltalite.columnar.reader.stream import read_files
from deltalite.columnar.skipping.files import FileTest, prune
from deltalite.columnar.statistics.footer import indexed_columns, statistics_json
from deltalite.protocol.arrow_schema import schema_to_arrow
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.schema import StructField, StructType
from deltalite.storage.memory import MemoryLogStore
from tests.support.fuzzing import examples
from tests.support.raw_json import to_text
from tests.support.skipping import DIGITS, KINDS, WIDENED, ColumnKind, Writer, files_table, nullable, predicates, truth

pytestmark = pytest.mark.slow

NAMES = ("a", "b", "with.dot")
STRUCT = ("st",)
PARTITIONS = ("p", "Q")
MODES = st.sampled_from(MappingMode)
PARTITION_KINDS = {name: kind for name, kind in KINDS.items() if kind.texts is not None}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A table, and the kinds of its columns by their paths."""

    table: TableSchema
    leaves: dict[tuple[str, ...], ColumnKind]
    partitions: dict[str, ColumnKind]

    @property
    def columns(self):
        """The kind of each column by its path. The kind of the struct is None."""
        struct = {STRUCT: None} if any(len(path) > 1 for path in self.leaves) else {}
        return self.leaves | {(name,): kind for name, kind in self.partitions.items()} | struct

    @property
    def physical_paths(self):
        """The path of each column in the data files."""
        return {path: self.table.physical_path(path) for path in self.columns}


@dataclass(frozen=True, kw_only=True)
class File:
    """The rows of a file, and its partition values and statistics in the log. The keys of a row are column paths."""

    rows: list[dict[tuple[str, ...], Any]]
    partition_values: dict[str, str | None]
    stats: str | None


@st.composite
def shapes(draw):
    """Up to three columns, at the top or in a struct, and up to two partition columns."""
    kinds = st.sampled_from(sorted(KINDS | WIDENED))
    places = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=3, unique=True))
    leaves = {(*STRUCT * nested, name): (KINDS | WIDENED)[draw(kinds)] for name, nested in places}
    names = draw(st.lists(st.sampled_from(PARTITIONS), max_size=2, unique=True))
    partitions = {name: PARTITION_KINDS[draw(st.sampled_from(sorted(PARTITION_KINDS)))] for name in names}
    return draw(shapes_of(leaves, partitions))


@st.composite
def shapes_of(draw, leaves, partitions):
    top_types = {path[0]: kind.type for path, kind in leaves.items() if len(path) == 1}
    member_types = {path[1]: kind.type for path, kind in leaves.items() if len(path) == 2}
    top_types |= {name: kind.type for name, kind in partitions.items()}
    mode = draw(MODES)
    if member_types:
        top_types[STRUCT[0]] = draw(mapped(member_types, mode))
    return Shape(
        table=TableSchema(logical=draw(mapped(top_types, mode)), partition_columns=tuple(partitions), mode=mode),
        leaves=leaves,
        partitions=partitions,
    )


@st.composite
def mapped(draw, types, mode):
    """A struct of these types. Column mapping gives new physical names, or the names of sibling columns."""
    if mode is MappingMode.NONE:
        return StructType(tuple(StructField(name, kind) for name, kind in types.items()))
    physical = draw(
        st.one_of(st.permutations(sorted(types)), st.just([f"col-{number}" for number in range(len(types))]))
    )
    return StructType(
        tuple(
            StructField(name, types[name], metadata={PHYSICAL_NAME: physical_name, FIELD_ID: number})
            for number, (name, physical_name) in enumerate(zip(sorted(types), physical, strict=True))
        )
    )


@st.composite
def rows_of(draw, shape):
    """The rows of one file, and the partition values that they share. The members of a null struct are null."""
    constant = {(name,): draw(nullable(kind)) for name, kind in shape.partitions.items()}
    constant = {path: None if value in ("", b"") else value for path, value in constant.items()}
    rows = []
    for _ in range(draw(DIGITS) // 2):
        row = {path: draw(nullable(kind)) for path, kind in shape.leaves.items()}
        if draw(DIGITS) < 4:
            row = {path: None if len(path) > 1 else value for path, value in row.items()} | {STRUCT: None}
        else:
            row[STRUCT] = "a struct"
        rows.append(row | constant)
    return rows, constant


@st.composite
def files_of(draw, shape, stats):
    rows, constant = draw(rows_of(shape))
    partition_values = {}
    for name, kind in shape.partitions.items():
        value = constant[(name,)]
        spellings = [None, ""] if value is None else kind.texts(value)
        partition_values[shape.physical_paths[(name,)][0]] = spellings[draw(DIGITS) % len(spellings)]
    deleted_rows, _ = draw(rows_of(shape)) if draw(DIGITS) < 5 else ([], None)
    return File(rows=rows, partition_values=partition_values, stats=draw(stats(shape, rows, deleted_rows)))


@st.composite
def foreign_stats(draw, shape, rows, deleted_rows):
    """The statistics of another engine, which include deleted rows. Some statistics are missing.

    Some writers do not count records and write 0.
    """
    writer = list(Writer)[draw(DIGITS) % len(Writer)]
    if not draw(DIGITS):
        return None
    physical, rows = shape.physical_paths, rows + deleted_rows
    low, high, nulls = {}, {}, {}
    for path, kind in shape.leaves.items():
        is_written = [draw(DIGITS) > 0 for _ in range(3)]
        values = [row[path] for row in rows if row[path] is not None]
        null_count = len(rows) - len(values) if kind.is_comparable else draw(DIGITS)
        bounds = bounds_of(values, kind, writer)
        for keep, target, value in zip(is_written, (low, high, nulls), (*bounds, null_count), strict=True):
            if keep and value is not None:
                set_at(target, physical[path], value)
    fields = {
        "numRecords": len(rows) if draw(DIGITS) else 0,
        "tightBounds": not deleted_rows,
        "minValues": low,
        "maxValues": high,
        "nullCount": nulls,
    }
    return to_text({key: value for key, value in fields.items() if draw(DIGITS) + draw(DIGITS)})


def bounds_of(values, kind, writer):
    """The smallest and the largest value as the writer spells them.

    Spark writes NaN as the largest value. Other writers omit NaN.
    """
    non_nan_values = [value for value in values if value == value]  # noqa: PLR0124  only NaN differs from itself
    if not non_nan_values or not kind.is_comparable:
        return None, None
    has_nan = len(non_nan_values) < len(values) and writer is Writer.DELTA
    highest = "NaN" if has_nan else kind.bound(max(non_nan_values), writer, True)
    return kind.bound(min(non_nan_values), writer, False), highest


def parquet_of(shape, rows):
    """The rows as a Parquet file with small row groups."""
    records = []
    for row in rows:
        record: dict[str, Any] = {}
        for path, value in row.items():
            if path in shape.physical_paths and path[0] not in shape.partitions:
                set_at(
                    record,
                    shape.physical_paths[path],
                    {} if path == STRUCT and value is not None else value,
                    skips_null_structs=True,
                )
        records.append(record)
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(records, schema=schema_to_arrow(shape.table.data_columns)), sink, row_group_size=2
    )
    return sink.getvalue()


@st.composite
def library_stats(draw, shape, rows, deleted_rows):
    """The statistics that this library computes from the footer of a Parquet file."""
    footer = pq.read_metadata(pa.BufferReader(parquet_of(shape, rows + deleted_rows)))
    length = ("32", "1", "3")[draw(DIGITS) % 3]
    settings_of_table = {"delta.dataSkippingNumIndexedCols": "-1", "delta.dataSkippingStringPrefixLength": length}
    return statistics_json(footer, indexed_columns(TableSchema(logical=shape.table.data_columns), settings_of_table))


def no_stats(_shape, _rows, _deleted):
    """The log has no statistics, so only the row groups have bounds."""
    return st.none()


def set_at(target, path, value, *, skips_null_structs=False):
    """Set a value in nested dictionaries. If `skips_null_structs`, a null struct gets no members."""
    for name in path[:-1]:
        struct = target.setdefault(name, {})
        if struct is None and skips_null_structs:
            return
        target = struct
    if not (skips_null_structs and value == {} and target.get(path[-1])):
        target[path[-1]] = value


@st.composite
def cases(draw, stats, shapes):
    shape = draw(shapes)
    files = draw(st.lists(files_of(shape, stats), min_size=1, max_size=2))
    return shape, files, draw(predicates(shape.columns, [row for file in files for row in file.rows]))


MASKS = {True: TRUE, False: FALSE, None: NULL}


def check(shape: Shape, files: list[File], predicate: Predicate) -> None:
    """Check that each truth value of a row is a possible outcome, and that pruning keeps the files that may match."""
    test = FileTest(predicate, shape.table)
    all_files = files_table(*((file.partition_values, file.stats) for file in files))
    kept_paths = set(prune(all_files, predicate, shape.table)["path"].to_pylist())
    for path, file in zip(all_files["path"].to_pylist(), files, strict=True):
        truths = {truth(predicate, row, unknown) for row in file.rows for unknown in MASKS}
        possible = test.possible_outcomes(file.partition_values, file.stats)
        for truth_value in truths:
            assert possible & MASKS[truth_value], f"{truth_value} is not among {possible}"
        assert True not in truths or path in kept_paths
        assert (path in kept_paths) == test.may_match(file.partition_values, file.stats)


def of_one_kind(kind):
    return shapes_of({("a",): kind}, {})


def partitioned_by(kind):
    return shapes_of({("a",): KINDS["long"]}, {"p": kind})


@pytest.mark.parametrize("name", KINDS | WIDENED)
def test_a_file_with_a_selected_row_is_kept_for_every_type_and_writer(name):
    @examples(20)
    @given(cases(foreign_stats, of_one_kind((KINDS | WIDENED)[name])))
    def check_case(case):
        check(*case)

    check_case()


@pytest.mark.parametrize("name", KINDS)
def test_a_file_with_a_selected_row_is_kept_with_statistics_of_this_library(name):
    @examples(10)
    @given(cases(library_stats, of_one_kind(KINDS[name])))
    def check_case(case):
        check(*case)

    check_case()


@pytest.mark.parametrize("name", PARTITION_KINDS)
def test_a_file_with_a_selected_row_is_kept_for_every_spelling_of_its_partition_value(name):
    @examples(10)
    @given(cases(foreign_stats, partitioned_by(PARTITION_KINDS[name])))
    def check_case(case):
        check(*case)

    check_case()


@examples(50)
@given(st.one_of(cases(foreign_stats, shapes()), cases(library_stats, shapes())))
def test_a_file_with_a_selected_row_is_kept_in_any_table(case):
    check(*case)


@st.composite
def cases_of_lists(draw, shapes):
    """A case with an IN list, or with its negation. Some values of the list are null, NaN, or in no file."""
    shape = draw(shapes)
    files = draw(st.lists(files_of(shape, foreign_stats), min_size=1, max_size=3))
    column, kind = draw(st.sampled_from([item for item in shape.columns.items() if item[1] and item[1].is_comparable]))
    file_values = [row[column] for file in files for row in file.rows if row[column] is not None]
    values = draw(st.lists(st.none() | kind.literals, max_size=20)) + draw(
        st.lists(st.sampled_from(file_values or [None]))
    )
    in_list = In(column, tuple(draw(st.permutations(values))))
    return shape, files, Not(in_list) if draw(st.booleans()) else in_list


def nested_of_one_kind(kind):
    return shapes_of({("st", "a"): kind}, {})


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.is_comparable])
def test_a_file_with_a_value_of_an_in_list_or_its_negation_is_kept(name):
    kind = KINDS[name]
    places = [of_one_kind(kind), nested_of_one_kind(kind), *([partitioned_by(kind)] if kind.texts else [])]

    @examples(15)
    @given(cases_of_lists(st.one_of(*places)))
    def check_case(case):
        check(*case)

    check_case()


@pytest.mark.parametrize("name", KINDS)
def test_row_groups_are_skipped_only_without_a_selected_row(name):
    @examples(10)
    @given(cases(no_stats, of_one_kind(KINDS[name])).filter(lambda case: case[0].table.mode is not MappingMode.ID))
    def check_case(case):
        shape, files, predicate = case
        assume(not any(isinstance(part, Unknown) for part in parts_of(predicate)))
        for file in files:
            store = MemoryLogStore()
            store.write("f.parquet", parquet_of(shape, file.rows).to_pybytes())
            batches = read_files(
                store,
                [DataFile(path="f.parquet")],
                shape.table,
                columns=[MetadataColumn.ROW_INDEX],
                predicate=predicate,
            )
            expected = [position for position, row in enumerate(file.rows) if truth(predicate, row, None) is True]
            assert [position for batch in batches for position in batch.column(0).to_pylist()] == expected

    check_case()


def test_a_row_group_with_bounds_that_omit_nan_is_read_for_a_greater_than_predicate():
    rows = [{("a",): value} for value in (1.0, math.nan, 2.0, 3.0)]
    shape = Shape(
        table=TableSchema(logical=StructType((StructField("a", KINDS["double"].type),))),
        leaves={("a",): KINDS["double"]},
        partitions={},
    )
    store = MemoryLogStore()
    store.write("f.parquet", parquet_of(shape, rows).to_pybytes())
    above = Comparison(column=("a",), operator=Operator.GT, literal=9.0)
    rows_read = pa.Table.from_batches(read_files(store, [DataFile(path="f.parquet")], shape.table, predicate=above))
    assert [math.isnan(value) for value in rows_read["a"].to_pylist()] == [True]


def parts_of(predicate):
    """The predicate and all its parts."""
    match predicate:
        case And(parts) | Or(parts):
            children = parts
        case Not(child):
            children = (child,)
        case _:
            children = ()
    return [predicate, *(part for child in children for part in parts_of(child))]
