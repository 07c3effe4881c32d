"""Opening the table's Parquet files, one by one, through the store.

Only `ParquetFile` over an open handle is used: the dataset interface over Python file systems has been seen to abort
the process at its end. A file that the log names and that is missing, or is no Parquet, is a `CorruptDataFileError`
with its path; storage that does not answer stays a `StorageError`. Footers are read in a bounded pool of threads.
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
_MISSING = "Restore the file, or run RESTORE to a version that does not need it."
_BROKEN = "Restore the file from a backup, or rewrite the rows from their source."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """An open Parquet file and its size."""

    parquet: pq.ParquetFile
    size_bytes: int


@contextmanager
def open_parquet(store: LogStore, name: str) -> Iterator[pq.ParquetFile]:
    """One data file, by its real (decoded) name; as `open_data_file`, without its size."""
    with open_data_file(store, name) as opened:
        yield opened.parquet


@contextmanager
def open_data_file(store: LogStore, name: str) -> Iterator[OpenedFile]:
    """One data file, by its real (decoded) name. What reading it raises in the block is translated too.

    Timestamps stored as int96 appear in microseconds. Pages are read as they are needed, so that a row group need not
    fit into memory; for each column that is read, a page, a dictionary and a buffer of at most 256 KB are held.

    Raises:
        CorruptDataFileError: the file is missing, is no Parquet or is damaged.
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
            f"The data file '{name}' of the table {store.root} does not exist.", remedy=_MISSING
        ) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the names in a footer are not checked by Arrow
        raise _damaged(store, name, error) from error
    except OSError as error:
        # Arrow reports damaged pages as an OSError too, but only the operating system gives an errno.
        if error.errno is None:
            raise _damaged(store, name, error) from error
        raise StorageError(
            f"The data file '{name}' of the table {store.root} could not be read: {error}.", remedy="Try again."
        ) from error


def read_footers(store: LogStore, names: Sequence[str]) -> list[pq.FileMetaData]:
    """The footers of data files, by their real names, in the order given; errors as for `open_parquet`."""
    return [footer for footer, _ in read_sized_footers(store, names)]


def read_sized_footers(store: LogStore, names: Sequence[str]) -> list[tuple[pq.FileMetaData, int]]:
    """As `read_footers`, each with the size of its file in bytes."""
    if not names:
        return []
    with ThreadPoolExecutor(max_workers=min(_MAX_THREADS, len(names)), thread_name_prefix="footer") as pool:
        return list(pool.map(lambda name: _read_footer(store, name), names))


def _read_footer(store: LogStore, name: str) -> tuple[pq.FileMetaData, int]:
    with open_data_file(store, name) as opened:
        return opened.parquet.metadata, opened.size_bytes


def _damaged(store: LogStore, name: str, error: Exception) -> CorruptDataFileError:
    return CorruptDataFileError(
        f"The data file '{name}' of the table {store.root} cannot be read as Parquet: {error}.", remedy=_BROKEN
    )
