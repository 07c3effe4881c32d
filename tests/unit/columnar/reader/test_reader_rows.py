"""The reader selects rows of a file by position, by key, and by a range of bytes."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.columnar.reader import stream
from deltalite.columnar.reader.data_file import DataFile, data_files, split
from deltalite.columnar.reader.equality_deletes import EqualityDeletes
from deltalite.columnar.reader.projection import MetadataColumn
from deltalite.columnar.reader.stream import read_table
from deltalite.errors import CorruptDataFileError, CorruptLogError, InvalidRequestError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import ArrayType, PrimitiveType, StructField, StructType
from tests.support.lake import NUMBERS, Lake, add_numbers, read_numbers, struct_of
from tests.support.vectors import inline_vector

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")


# Rows by position.
@pytest.mark.parametrize("batch_size", [1, 2, 4, 100])
@pytest.mark.parametrize("deleted_rows", [[0], [9], [2, 3, 4], [0, 1, 2, 5], range(10), []])
def test_rows_of_a_deletion_vector_are_not_read(lake, deleted_rows, batch_size):
    add_numbers(lake, deletion_vector=inline_vector(deleted_rows))
    assert read_numbers(lake, batch_size=batch_size) == [n for n in range(10) if n not in deleted_rows]


def test_a_read_without_columns_does_not_count_rows_of_a_deletion_vector(lake):
    add_numbers(lake, deletion_vector=inline_vector([1, 8]))
    assert lake.read(NUMBERS, columns=[]).num_rows == 8


def test_only_selected_rows_that_are_not_deleted_are_read(lake):
    add_numbers(lake)
    only_rows = inline_vector([1, 5, 6])
    assert read_numbers(lake, files=lake.data_files(only_rows_vector=only_rows)) == [1, 5, 6]
    files = lake.data_files(only_rows_vector=only_rows, deletion_vector=inline_vector([5, 9]))
    assert read_numbers(lake, files=files) == [1, 6]
    assert read_numbers(lake, files=lake.data_files(only_rows_vector=inline_vector([]))) == []


def test_the_reader_can_return_deleted_rows_with_a_flag(lake):
    add_numbers(lake, 4, deletion_vector=inline_vector([1]))
    keys = EqualityDeletes(columns=("a",), keys=pa.table({"a": [2]}))
    columns = ["a", MetadataColumn.IS_DELETED, MetadataColumn.ROW_INDEX]
    rows_read = lake.rows_of(NUMBERS, columns=columns, equality_deletes=[keys])
    assert [tuple(row.values()) for row in rows_read] == [(0, False, 0), (1, True, 1), (2, True, 2), (3, False, 3)]
    files = lake.data_files(only_rows_vector=inline_vector([1, 3]))
    assert [row["a"] for row in lake.rows_of(NUMBERS, columns=columns, files=files)] == [1, 3]


def test_a_vector_with_rows_beyond_the_file_is_rejected(lake):
    add_numbers(lake, deletion_vector=inline_vector([10]))
    with pytest.raises(
        CorruptDataFileError, match=r"selects the row at index 10 .*f\.parquet', but the file has 10 rows"
    ):
        lake.read(NUMBERS)


def test_a_missing_vector_raises_an_error_and_no_row_is_read(lake):
    missing_vector = {**inline_vector([1]), "storageType": "p", "pathOrInlineDv": "file:///nowhere/dv.bin", "offset": 1}
    add_numbers(lake, deletion_vector=missing_vector)
    with pytest.raises(CorruptDataFileError, match=r"nowhere/dv\.bin"):
        lake.read(NUMBERS)


def test_completely_deleted_row_groups_are_read_if_deleted_rows_are_requested(lake, read_groups):
    add_numbers(lake, deletion_vector=inline_vector(range(6)))
    flags = lake.read(NUMBERS, columns=["_is_deleted"])["_is_deleted"].to_pylist()
    assert flags == [True] * 6 + [False] * 4 and read_groups == [0, 1, 2, 3]


def test_row_groups_without_selected_rows_are_not_read(lake, read_groups):
    add_numbers(lake, deletion_vector=inline_vector([0, 1, 2, 4]))
    assert read_numbers(lake) == [3, 5, 6, 7, 8, 9] and read_groups == [1, 2, 3]
    read_groups.clear()
    files = lake.data_files(only_rows_vector=inline_vector([7]), deletion_vector=None)
    assert read_numbers(lake, files=files) == [7] and read_groups == [2]


# Rows by a range of bytes of the file.
@pytest.mark.parametrize("part_bytes", [1, 7, 100, 333, 10**6])
@pytest.mark.parametrize("claimed_size", ["true size", "no size", "too small"])
def test_ranges_that_cover_a_file_read_each_row_once(lake, part_bytes, claimed_size):
    add_numbers(lake, 40, 4, deletion_vector=inline_vector([7]))
    true_size = (lake.folder / "f.parquet").stat().st_size
    size = {"true size": true_size, "no size": 0, "too small": 300}[claimed_size]
    (whole_file,) = lake.data_files()
    parts = list(split(whole_file, size, part_bytes))
    assert sorted(read_numbers(lake, files=parts)) == [n for n in range(40) if n != 7]
    assert [part.start for part in parts] == sorted(part.start for part in parts) and parts[-1].length is None


def test_a_range_that_contains_the_middle_of_a_row_group_reads_the_row_group_with_true_positions(lake):
    add_numbers(lake, 40, 10)
    footer = pq.read_metadata(lake.folder / "f.parquet")
    starts = [footer.row_group(g).column(0).dictionary_page_offset for g in range(4)]
    lengths = [footer.row_group(g).column(0).total_compressed_size for g in range(4)]
    middle = starts[2] + lengths[2] // 2
    for start, end, rows in (
        (middle, middle + 1, range(20, 30)),
        (middle + 1, middle + 2, []),
        (starts[2], middle, []),
        (0, middle, range(20)),
        (middle, 10**9, range(20, 40)),
    ):
        files = lake.data_files(start=start, length=end - start)
        rows_read = lake.rows_of(NUMBERS, files=files, columns=["a", "_row_index"])
        assert [row["a"] for row in rows_read] == [row["_row_index"] for row in rows_read] == list(rows)


@pytest.mark.parametrize("invalid_range", [{"start": -1}, {"length": -1}])
def test_an_invalid_range_is_rejected(invalid_range):
    with pytest.raises(InvalidRequestError, match="range of bytes"):
        DataFile(path="x", **invalid_range)


def test_an_invalid_batch_size_is_rejected(lake):
    with pytest.raises(InvalidRequestError, match="batch_size is 0"):
        lake.batches(NUMBERS, batch_size=0)


def test_batches_of_long_rows_are_short(lake, monkeypatch):
    monkeypatch.setattr(stream, "_BATCH_BYTES", 10_000)
    lake.add(pa.table({"s": [str(n) * 1_000 for n in range(100)]}), use_dictionary=False, compression="none")
    sizes = [batch.num_rows for batch in lake.batches(struct_of(s=STRING))]
    assert sum(sizes) == 100 and 2 <= max(sizes) <= 10


TEXTS = [str(n % 10) * 2_000 for n in range(3_000)]


@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("row_group_size", [100, 10_000])
@pytest.mark.parametrize(
    "column",
    [
        pa.array(TEXTS),
        pa.array([{"deep": text} for text in TEXTS]),
        pa.array([[text[:20]] * 100 for text in TEXTS]),
        pa.array([0.5] * 300_000),
        pa.array([[n % 3] * 5_000 for n in range(300)]),
        pa.array([bytes(2_000)] * 3_000, pa.binary(2_000)),
    ],
    ids=["texts", "members", "lists of texts", "numbers", "lists of numbers", "fixed length"],
)
def test_repeated_values_in_a_file_do_not_make_batches_large(lake, monkeypatch, column, row_group_size, dictionary):
    monkeypatch.setattr(stream, "_BATCH_BYTES", 300_000)
    table = pa.table({"a": column})
    lake.add(table, row_group_size=row_group_size, use_dictionary=dictionary, store_schema=False)
    schema = pa.schema([("a", pa.binary() if pa.types.is_fixed_size_binary(column.type) else column.type)])
    batches = list(lake.batches(schema, batch_size=10**6))
    assert pa.Table.from_batches(batches)["a"].to_pylist() == column.to_pylist()
    assert max(batch.nbytes for batch in batches) < 400_000
    assert len(batches) < 12 + 2 * column.nbytes / 300_000


def test_growing_texts_make_at_most_one_large_batch(lake, monkeypatch):
    monkeypatch.setattr(stream, "_BATCH_BYTES", 300_000)
    texts = ["x"] * 5_000 + TEXTS + ["y"] * 5_000
    lake.add(pa.table({"s": texts}))
    batches = list(lake.batches(struct_of(s=STRING), batch_size=2_000))
    assert pa.Table.from_batches(batches)["s"].to_pylist() == texts
    assert sum(batch.nbytes > 400_000 for batch in batches) == 1
    assert batches[-1].num_rows > 500


def test_batches_of_short_texts_grow_to_the_requested_size(lake):
    lake.add(pa.table({"s": [f"{n} text" for n in range(100_000)]}), row_group_size=30_000)
    sizes = [batch.num_rows for batch in lake.batches(struct_of(s=STRING), batch_size=20_000)]
    assert sum(sizes) == 100_000 and max(sizes) == 20_000 and len(sizes) < 10


def test_a_small_file_of_texts_is_one_batch(lake):
    lake.add(pa.table({"s": [f"{n} text" for n in range(500)]}))
    assert [batch.num_rows for batch in lake.batches(struct_of(s=STRING))] == [500]


def test_columns_that_are_missing_in_the_file_count_towards_the_batch_size(lake, monkeypatch):
    monkeypatch.setattr(stream, "_BATCH_BYTES", 300_000)
    lake.add(pa.table({"a": pa.nulls(10_000, pa.int64())}), partition_values={"p": "x" * 500})
    schema = struct_of(a=LONG, p=STRING, **{f"new{n}": LONG for n in range(50)})
    for columns in (None, ["p"], ["new1", "a"]):
        batches = list(lake.batches(schema, ["p"], columns=columns))
        assert sum(batch.num_rows for batch in batches) == 10_000
        assert max(batch.nbytes for batch in batches) < 400_000


def test_a_row_group_is_read_page_by_page(tmp_path):
    """The reader needs less memory than a quarter of the only row group of the file."""
    lake = Lake(tmp_path)
    column = pa.array([bytes([n % 251]) * 100 for n in range(200_000)])
    lake.add(pa.table({"b": column}), use_dictionary=False, compression="none", row_group_size=10**9)
    pool = pa.default_memory_pool()
    pool.release_unused()
    before, max_bytes = pool.bytes_allocated(), 0
    for batch in lake.batches(struct_of(b=PrimitiveType("binary")), batch_size=1_000, use_threads=False):
        max_bytes = max(max_bytes, pool.bytes_allocated() - before - batch.nbytes)
    assert max_bytes < column.nbytes / 4


# Rows by their key.
def equality_deletes_of(**keys):
    return [EqualityDeletes(columns=tuple(keys), keys=pa.table(keys))]


MIXED = pa.table(
    {
        "n": pa.array([1, 2, None, 2, None]),
        "s": ["x", "y", None, None, "x"],
        "f": [math.nan, 0.0, -0.0, None, 1.5],
        "st": [{"k": 1}, {"k": None}, None, {"k": 2}, {"k": 1}],
    }
)


@pytest.mark.parametrize(
    ("keys", "remaining_rows"),
    [
        ({"n": pa.array([2], pa.int32())}, [0, 2, 4]),
        ({"n": pa.array([None], pa.int64())}, [0, 1, 3]),
        ({"n": pa.array([1, None, 9])}, [1, 3]),
        ({"n": [2, 2], "s": ["y", "y"]}, [0, 2, 3, 4]),
        ({"n": [2, None, 1], "s": [None, None, "y"]}, [0, 1, 4]),
        ({"s": ["x", "y"], "n": pa.array([None, 2], pa.int8())}, [0, 2, 3]),
        ({"n": [1, 2], "s": ["x", "y"], "f": [math.nan, -0.0]}, [1, 2, 3, 4]),
        ({"f": [math.nan]}, [1, 2, 3, 4]),
        ({"f": [-0.0]}, [0, 1, 3, 4]),
        ({"f": [0.0, None]}, [0, 2, 4]),
        ({"st.k": pa.array([1, None])}, [3]),
        ({"n": pa.array([], pa.int64())}, [0, 1, 2, 3, 4]),
    ],
    ids=lambda value: str({k: pa.array(v).to_pylist() for k, v in value.items()} if isinstance(value, dict) else value),
)
@pytest.mark.parametrize("batch_size", [2, 100])
def test_a_row_is_removed_if_its_complete_key_is_deleted(lake, keys, remaining_rows, batch_size):
    lake.add(MIXED)
    options = {"columns": ["_row_index"], "batch_size": batch_size, "equality_deletes": equality_deletes_of(**keys)}
    assert lake.read(MIXED.schema, **options)["_row_index"].to_pylist() == remaining_rows


def test_several_equality_deletes_combine_and_may_name_partition_columns_and_missing_columns(lake):
    lake.add(pa.table({"a": [1, 2, 3]}), partition_values={"day": "x"})
    schema = struct_of(a=LONG, day=STRING, new=STRING)
    deletes = (
        equality_deletes_of(a=[1], day=["x"])
        + equality_deletes_of(a=[3], new=pa.array([None], pa.string()))
        + equality_deletes_of(a=[2], day=["y"])
    )
    assert lake.rows_of(schema, ["day"], columns=["a"], equality_deletes=deletes) == [{"a": 2}]


def test_a_key_of_many_columns_does_not_overflow(lake):
    count = 2_000
    names = [f"c{n}" for n in range(8)]
    table = pa.table({name: [(row * (n + 1)) % count for row in range(count)] for n, name in enumerate(names)})
    lake.add(table)
    keys = EqualityDeletes(columns=tuple(names), keys=table.slice(5, count))
    assert lake.read(table.schema, equality_deletes=[keys]).to_pylist() == table.slice(0, 5).to_pylist()


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ((), {"a": [1]}),
        (("a", "b"), {"a": [1]}),
        (("nope",), {"nope": [1]}),
        (("a",), {"a": ["x"]}),
        (("a",), {"a": [1.5]}),
    ],
)
def test_keys_that_do_not_fit_the_table_are_rejected_before_a_file_is_read(lake, columns, keys):
    with pytest.raises(InvalidRequestError):
        lake.batches(NUMBERS, equality_deletes=[EqualityDeletes(columns=columns, keys=pa.table(keys))])


def test_a_list_column_is_rejected_as_a_key(lake):
    keys = EqualityDeletes(columns=("l",), keys=pa.table({"l": [[1]]}))
    with pytest.raises(InvalidRequestError, match="column 'l' of type array"):
        lake.batches(struct_of(l=ArrayType(LONG)), equality_deletes=[keys])


# A whole table.
def test_a_table_has_the_rows_of_its_files_in_order(lake):
    for number in range(7):
        add_numbers(lake, 5 + number, 2, name=f"{number}.parquet", deletion_vector=inline_vector([number]))
    table = TableSchema(logical=NUMBERS)
    rows_read = read_table(lake.store, data_files(lake.files), table, columns=["a", "_file"])
    assert rows_read.to_pylist() == lake.rows_of(NUMBERS, columns=["a", "_file"])
    empty = read_table(lake.store, [], table, columns=["_file", "a"])
    assert (empty.num_rows, empty.column_names) == (0, ["_file", "a"])


def test_an_error_in_one_file_fails_the_read_of_the_table(lake):
    for number in range(20):
        add_numbers(lake, 5, 2, name=f"{number}.parquet")
    (lake.folder / "13.parquet").unlink()
    with pytest.raises(CorruptDataFileError, match=r"'13\.parquet'"):
        read_table(lake.store, data_files(lake.files), TableSchema(logical=NUMBERS))


def test_a_file_outside_the_table_folder_is_read(lake, tmp_path_factory):
    outside_file = tmp_path_factory.mktemp("elsewhere") / "x y.parquet"
    pq.write_table(pa.table({"a": [1]}), outside_file)
    for path in (f"file://{outside_file}", f"file:{outside_file}", str(outside_file)):
        files = [DataFile(path=path.replace(" ", "%20"))]
        assert lake.rows_of(NUMBERS, files=files, columns=["a", "_file"]) == [{"a": 1, "_file": path}]


def test_the_error_names_column_and_file_of_a_wrong_partition_value(lake):
    lake.add(pa.table({"a": [1]}), name="f 1.parquet", partition_values={"p": "x"})
    with pytest.raises(CorruptLogError, match=r"'x'.*column 'p' of the file 'f%201\.parquet'"):
        lake.read(StructType((StructField("a", LONG), StructField("p", LONG))), ["p"])
