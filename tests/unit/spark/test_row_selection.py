"""A scan returns the rows that the deletion vectors do not remove."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.errors import CorruptDataFileError
from deltalite.log.file_table import DELETION_VECTOR
from deltalite.spark.scan.row_selection import live_rows
from tests.unit.builders import new_store

REMOVED_ROWS = ([0, 5], [], [2**33, 2**33 + 7])


@pytest.fixture
def store():
    return new_store()


@pytest.fixture
def files(store):
    """Five files. The second and the last have no vector."""
    first, empty, large = write_vectors(store, [pa.array(rows, pa.int64()) for rows in REMOVED_ROWS])
    column = pa.array([first, None, empty, large, None], DELETION_VECTOR)
    return pa.table({"deletionVector": pa.chunked_array([column[:2], column[2:]])})


def test_each_file_keeps_the_rows_that_its_vector_does_not_remove(store, files):
    selections = live_rows(store, files)
    assert {number: selection.positions.to_pylist() for number, selection in selections.items()} == {
        0: REMOVED_ROWS[0],
        3: REMOVED_ROWS[2],
    }
    assert not any(selection.only_these for selection in selections.values())
    assert live_rows(store, files.slice(1, 1)) == {}


def test_any_missing_vector_raises_an_error(store, files):
    name = file_name(files["deletionVector"][3].as_py())
    del store.files[name]
    with pytest.raises(CorruptDataFileError, match="deletion_vector"):
        live_rows(store, files)
