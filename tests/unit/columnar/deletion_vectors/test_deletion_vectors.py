"""A deletion vector is read from the log or from its file. The error for an invalid vector names the wrong value."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.columnar.deletion_vectors.reading import mask_without_rows, vector_positions
from deltalite.errors import CorruptDataFileError, StorageError
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from tests.support.fuzzing import examples
from tests.support.vectors import inline_vector, vector, vector_file, with_size_and_checksum, z85
from tests.unit.columnar.deletion_vectors.stored_vectors import ID, NAME, ROWS, descriptor, store_with


def test_a_vector_in_a_separate_file_is_read():
    assert vector_positions(store_with(vector_file(vector(ROWS))[0]), descriptor()).to_pylist() == ROWS


def test_each_vector_of_a_shared_file_is_read_at_its_offset():
    row_sets = [[1], list(range(5000)), [2**33, 2**34]]
    content, offsets = vector_file(*map(vector, row_sets))
    for rows, offset in zip(row_sets, offsets, strict=True):
        vector_of_rows = descriptor(offset=offset, sizeInBytes=len(vector(rows)), cardinality=len(rows))
        assert vector_positions(store_with(content), vector_of_rows).to_pylist() == rows


def test_a_prefix_before_the_uuid_is_a_folder():
    prefixed = descriptor(pathOrInlineDv="ab" + z85(ID.bytes))
    assert file_name(prefixed) == f"ab/{NAME}"
    assert vector_positions(store_with(vector_file(vector(ROWS))[0], f"ab/{NAME}"), prefixed).to_pylist() == ROWS


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_an_absolute_path_is_decoded_like_the_path_of_a_data_file(tmp_path, scheme):
    file = tmp_path / "a b%20.bin"
    file.write_bytes(vector_file(vector(ROWS))[0])
    path = f"{scheme}{tmp_path}/a%20b%2520.bin"
    positions = vector_positions(
        LocalLogStore(str(tmp_path / "table")), descriptor(storageType="p", pathOrInlineDv=path)
    )
    assert positions.to_pylist() == ROWS


@pytest.mark.parametrize("rows", [[0], [0, 9], ROWS, list(range(1000)), [2**40]])
def test_a_vector_in_the_log_is_read_without_its_padding(rows):
    assert vector_positions(MemoryLogStore(), inline_vector(rows)).to_pylist() == rows


def test_an_empty_vector_deletes_nothing():
    empty_vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 0}
    assert vector_positions(MemoryLogStore(), empty_vector).to_pylist() == []
    assert vector_positions(MemoryLogStore(), inline_vector([])).to_pylist() == []


def test_an_absent_offset_means_the_first_vector_of_the_file():
    content, _ = vector_file(vector(ROWS), vector([1]))
    for absent_offset in ("absent", None):
        assert vector_positions(store_with(content), descriptor(offset=absent_offset)).to_pylist() == ROWS


VALID_FILE, _ = vector_file(vector(ROWS))


@pytest.mark.parametrize(
    ("content", "changes", "reason"),
    [
        (b"\x02" + VALID_FILE[1:], {}, "version 2 where 1 is expected"),
        (VALID_FILE[:-1], {}, "the file ends after"),
        (b"", {}, "the file ends after 0 bytes"),
        (VALID_FILE, {"offset": 2}, "the file ends after"),
        (VALID_FILE, {"offset": 2**40}, "the file ends after"),
        (VALID_FILE, {"sizeInBytes": 2**62}, "the file ends after"),
        (VALID_FILE, {"offset": -1}, "offset -1"),
        (VALID_FILE, {"offset": 0}, "offset 0"),
        (VALID_FILE, {"offset": "1"}, "offset '1'"),
        (VALID_FILE, {"sizeInBytes": len(vector(ROWS)) - 1}, "the log says"),
        (VALID_FILE, {"sizeInBytes": None}, "sizeInBytes None"),
        (VALID_FILE, {"sizeInBytes": -1}, "sizeInBytes -1"),
        (VALID_FILE, {"cardinality": 5}, "6 rows instead of 5"),
        (VALID_FILE, {"cardinality": 7}, "6 rows instead of 7"),
        (VALID_FILE, {"cardinality": "absent"}, "cardinality None"),
        (VALID_FILE, {"cardinality": True}, "cardinality True"),
        (VALID_FILE[:20] + b"\xff" + VALID_FILE[21:], {}, "checksum [0-9a-f]{8} where [0-9a-f]{8} is expected"),
        (VALID_FILE[:-1] + bytes([VALID_FILE[-1] ^ 1]), {}, "checksum"),
        (b"\x01" + with_size_and_checksum(bytes(len(vector(ROWS)))), {}, "magic number 0 where 1681511377"),
        (VALID_FILE, {"storageType": "x"}, "storage type"),
        (VALID_FILE, {"storageType": "absent"}, "storage type"),
        (VALID_FILE, {"pathOrInlineDv": None}, "pathOrInlineDv"),
        (VALID_FILE, {"pathOrInlineDv": "short"}, "uuid"),
        (VALID_FILE, {"pathOrInlineDv": "," * 20}, "uuid"),
        (VALID_FILE, {"storageType": "p", "pathOrInlineDv": NAME}, "not absolute"),
        (VALID_FILE, {"storageType": "i"}, "bytes where the log says"),
        (VALID_FILE, {"storageType": "i", "pathOrInlineDv": "#####"}, "Z85"),
        (VALID_FILE, {"storageType": "i", "sizeInBytes": 10}, "magic number"),
        (VALID_FILE, {**inline_vector(ROWS), "sizeInBytes": len(vector(ROWS)) - 1}, "ends early"),
        (VALID_FILE, {"sizeInBytes": 0, "cardinality": 0}, "the log says 0"),
    ],
)
def test_the_error_names_the_expected_and_the_actual_value(content, changes, reason):
    with pytest.raises(CorruptDataFileError, match=reason) as caught:
        vector_positions(store_with(content), descriptor(**changes))
    assert caught.value.remedy


def test_the_error_names_the_file_and_offset_of_a_damaged_vector():
    with pytest.raises(CorruptDataFileError, match=f"at byte 1 of '{NAME}' of the table memory://table"):
        vector_positions(store_with(VALID_FILE[:-1] + b"\0"), descriptor())


def test_the_error_names_a_missing_file():
    with pytest.raises(CorruptDataFileError, match=f"'{NAME}' of the table memory://table does not exist"):
        vector_positions(MemoryLogStore(), descriptor())


def test_a_storage_failure_is_not_reported_as_damage():
    def fail(_operation, _name):
        raise OSError(5, "Input/output error")

    store = store_with(VALID_FILE)
    store.before = fail
    with pytest.raises(StorageError, match=NAME):
        vector_positions(store, descriptor())


@examples(300)
@given(position=st.integers(0, len(VALID_FILE) - 1), change=st.one_of(st.just("cut"), st.integers(1, 255)))
def test_a_damaged_file_never_gives_other_rows(position, change):
    damaged_end = b"" if change == "cut" else bytes([VALID_FILE[position] ^ change]) + VALID_FILE[position + 1 :]
    damaged = VALID_FILE[:position] + damaged_end
    with pytest.raises(CorruptDataFileError):
        vector_positions(store_with(damaged), descriptor())


@examples(200)
@given(
    rows=st.sets(st.integers(0, 60)),
    start=st.integers(0, 70),
    count=st.integers(0, 70),
)
def test_the_mask_of_a_range_is_true_for_the_rows_that_are_not_deleted(rows, start, count):
    mask = mask_without_rows(pa.array(sorted(rows), pa.int64()), start, count)
    expected = [row not in rows for row in range(start, start + count)]
    assert (mask is None) == all(expected)
    assert mask is None or (mask.type == pa.bool_() and mask.to_pylist() == expected)


def vectors_of(table):
    """The distinct descriptors of deletion vectors in the commits of a table."""
    vectors = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            for kind in ("add", "remove"):
                vector_descriptor = (action.get(kind) or {}).get("deletionVector")
                if vector_descriptor is not None:
                    vectors[json.dumps(vector_descriptor, sort_keys=True)] = vector_descriptor
    return list(vectors.values())


GOLDEN = [
    "dat/deletion_vectors",
    "delta-golden/dv-partitioned-with-checkpoint",
    "delta-golden/dv-with-columnmapping",
    "delta-kernel-java/basic-dv-with-checkpoint",
    "delta-kernel-rs/table-with-dv-small",
    "delta-rs/cdf-table-with-cdc-and-dvs",
    "derived/dv-inline",
    "derived/partitioned-table-with-dv-large",
    "derived/table-with-dv-large",
    "derived/table-with-dv-small",
    "trino/deltalake/deletion_vector_pages",
]


@pytest.mark.parametrize("name", GOLDEN)
def test_vectors_of_other_engines_have_the_cardinality_of_their_logs(golden, name):
    table = golden / "tables" / name
    vectors = vectors_of(table)
    assert vectors
    for vector_descriptor in vectors:
        assert len(vector_positions(LocalLogStore(str(table)), vector_descriptor)) == vector_descriptor["cardinality"]
