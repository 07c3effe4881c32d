"""The number of records of many files, from their statistics.

Most writers put `numRecords` first, so Arrow reads the number from a short prefix of the JSON, without a loop in
Python. All other texts are parsed. The number includes soft-deleted rows. Protocol: Per-file Statistics.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.file_facts import parse_stats

_NUM_RECORDS_FIRST = r'^\{\s*"numRecords"\s*:\s*(?P<count>\d{1,18})\s*[,}]'
_PREFIX_BYTES = 40


def num_records(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return `numRecords` of each statistics text as int64; null if it is missing."""
    prefix = pc.binary_slice(stats.cast(pa.binary()), 0, _PREFIX_BYTES).cast(pa.string(), safe=False)
    counts = pc.struct_field(pc.extract_regex(prefix, _NUM_RECORDS_FIRST), "count").cast(pa.int64())
    if counts.null_count == stats.null_count:
        return counts
    counts_and_texts = zip(counts.to_pylist(), stats.to_pylist(), strict=True)
    return pa.chunked_array(
        [pa.array([_parse_count(text) if count is None else count for count, text in counts_and_texts], pa.int64())]
    )


def _parse_count(text: str | None) -> int | None:
    stats = parse_stats(text)
    return None if stats is None else stats.num_records
