"""Opening of the table's Parquet files through the store.

The module uses only `ParquetFile` with an open handle, because Arrow's dataset interface with Python file systems can
abort the process at exit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from deltalite.errors import CorruptDataFileError, StorageError

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

_MAX_THREADS = 8
_BUFFER_BYTES = 256 * 1024
_MISSING_FILE_REMEDY = "Restore the file, or run RESTORE to a version that does not need it."
_DAMAGED_FILE_REMEDY = "Restore the file from a backup, or rewrite the rows from their source."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """An open Parquet file and its size."""

    parquet: pq.ParquetFile
    size_bytes: int


@contextmanager
def open_parquet(store: LogStore, name: str) -> Iterator[pq.ParquetFile]:
    """Open a data file as `open_data_file` does, but yield only the `ParquetFile`."""
    with open_data_file(store, name) as opened:
        yield opened.parquet


@contextmanager
def open_data_file(store: LogStore, name: str) -> Iterator[OpenedFile]:
    """Open a data file by its decoded name. Errors of reads in the `with` block are converted too.

    Timestamps stored as int96 are read in microseconds. Pages are read on demand, so that a row group need not fit into
    memory. Each column takes a page, a dictionary and a buffer of at most 256 KB.

    Raises:
        CorruptDataFileError: the file is missing or damaged, or is not Parquet.
        StorageError: the operating system or the network failed.
    """
    try:
        with (
            store.open(name) as handle,
            pq.ParquetFile(
                handle, coerce_int96_timestamp_unit="us", pre_buffer=False, buffer_size=_BUFFER_BYTES
            ) as file,
        ):
            yield OpenedFile(parquet=file, size_bytes=handle.size())
    except FileNotFoundError as error:
        raise CorruptDataFileError(
            f"The data file '{name}' of the table {store.root} does not exist.", remedy=_MISSING_FILE_REMEDY
        ) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:  # Arrow does not validate the names in a footer
        raise _damaged_file_error(store, name, error) from error
    except OSError as error:
        # Arrow reports damaged pages as an OSError too, but only the operating system gives an errno.
        if error.errno is None:
            raise _damaged_file_error(store, name, error) from error
        raise StorageError(
            f"The data file '{name}' of the table {store.root} could not be read: {error}.",
            remedy="Check the storage, then retry the task.",
        ) from error


def read_footers(store: LogStore, names: Sequence[str]) -> list[pq.FileMetaData]:
    """Return the footers of the data files with these decoded names, in the same order.

    Raises:
        CorruptDataFileError, StorageError: see `open_data_file`.
    """
    return [footer for footer, _ in read_sized_footers(store, names)]


def read_sized_footers(store: LogStore, names: Sequence[str]) -> list[tuple[pq.FileMetaData, int]]:
    """Return the result of `read_footers`, each footer with the size of its file in bytes."""
    if not names:
        return []
    with ThreadPoolExecutor(max_workers=min(_MAX_THREADS, len(names)), thread_name_prefix="footer") as pool:
        return list(pool.map(lambda name: _read_footer(store, name), names))


def _read_footer(store: LogStore, name: str) -> tuple[pq.FileMetaData, int]:
    with open_data_file(store, name) as opened:
        return opened.parquet.metadata, opened.size_bytes


def _damaged_file_error(store: LogStore, name: str, error: Exception) -> CorruptDataFileError:
    return CorruptDataFileError(
        f"The data file '{name}' of the table {store.root} cannot be read as Parquet: {error}.",
        remedy=_DAMAGED_FILE_REMEDY,
    )
