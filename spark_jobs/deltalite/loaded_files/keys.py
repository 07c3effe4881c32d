"""The identity of loaded files: address, size and modification time, and the ETag if the storage has one.

Files are rows of a table with the schema `FILES`. A key is a 128-bit hash of address, size and time. Two files are the
same if their keys are equal and their ETags do not differ. A missing ETag does not differ from any ETag. The hash is
cryptographic, so nobody can choose a file name that gives the key of another file. The functions here do no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FILES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
        pa.field("etag", pa.string()),
    ]
)
"""The columns of files: the canonical address, the size, the modification time (milliseconds UTC) and the ETag."""

NO_ETAG = 0
_DIGEST_BYTES = 16
_ROWS_PER_BATCH = 65_536  # limits the number of Python strings in memory
# The constants of the mixing function splitmix64 (public domain, Sebastiano Vigna).
_INCREMENT, _FACTOR_1, _FACTOR_2 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKeys:
    """The keys of files as arrays: both halves of the hash, the modification time, and the hash of the ETag."""

    high: Integers
    low: Integers
    modified_ms: Integers
    etag: Integers


def file_keys(files: pa.Table) -> FileKeys:
    """Return the keys of files with the columns of `FILES`."""
    digests = bytearray()
    etags = np.zeros(files.num_rows, np.int64)
    row = 0
    for batch in files.select(["address", "etag"]).to_batches(max_chunksize=_ROWS_PER_BATCH):
        addresses, etag_column = batch.columns
        digests += b"".join(_digests(addresses))
        if etag_column.null_count < len(etag_column):
            etags[row : row + batch.num_rows] = [_etag_key(etag) for etag in etag_column.to_pylist()]
        row += batch.num_rows
    halves = np.frombuffer(bytes(digests), np.int64).reshape(-1, 2)
    sizes, times = _numpy(files["size_bytes"]), _numpy(files["modified_ms"])
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2**64
        low = halves[:, 1].view(np.uint64) ^ _mixed(_mixed(sizes.view(np.uint64)) ^ times.view(np.uint64))
    return FileKeys(high=np.ascontiguousarray(halves[:, 0]), low=low.view(np.int64), modified_ms=times, etag=etags)


def matches(candidates: FileKeys, loaded: FileKeys) -> Booleans:
    """Return, for each candidate, whether it is among the loaded files. `loaded.high` must be in ascending order."""
    is_loaded = np.zeros(len(candidates.high), np.bool_)
    rows = np.argsort(candidates.high)  # a binary search for values in order needs less than half of the time
    positions = np.searchsorted(loaded.high, candidates.high[rows], side="left")
    while len(rows):  # one step, unless two files share the first half of the hash or differ in ETags
        is_inside = positions < len(loaded.high)
        rows, positions = rows[is_inside], positions[is_inside]
        is_equal = loaded.high[positions] == candidates.high[rows]
        rows, positions = rows[is_equal], positions[is_equal]
        candidate_etags, loaded_etags = candidates.etag[rows], loaded.etag[positions]
        has_same_etag = (candidate_etags == loaded_etags) | (candidate_etags == NO_ETAG) | (loaded_etags == NO_ETAG)
        is_loaded[rows] |= (loaded.low[positions] == candidates.low[rows]) & has_same_etag
        positions = positions + 1
    return is_loaded


def selected(keys: FileKeys, rows: Any) -> FileKeys:
    """Return the keys of some rows: a mask, a slice or row numbers."""
    return FileKeys(high=keys.high[rows], low=keys.low[rows], modified_ms=keys.modified_ms[rows], etag=keys.etag[rows])


def _digests(texts: pa.Array) -> Iterator[bytes]:
    """Yield the hash of each text. A copy of an empty hash costs less than a new one."""
    copy = blake2b(digest_size=_DIGEST_BYTES).copy
    for text in texts.cast(pa.binary()).to_pylist():
        digest = copy()
        digest.update(text)
        yield digest.digest()


def _etag_key(etag: str | None) -> int:
    """Return a hash of the ETag, which is never `NO_ETAG`. Return `NO_ETAG` if the file has no ETag."""
    if not etag:
        return NO_ETAG
    return int.from_bytes(blake2b(etag.encode(), digest_size=8).digest(), "little", signed=True) or 1


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the values mixed by splitmix64, so that each bit of the input changes about half of the output."""
    mixed = values + _INCREMENT
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FACTOR_1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _FACTOR_2
    return mixed ^ (mixed >> np.uint64(31))


def _numpy(column: pa.ChunkedArray) -> Integers:
    values: Integers = column.to_numpy().astype(np.int64, copy=False)
    return values
