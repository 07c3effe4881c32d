"""Output of the rows of record batches, as JSON lines or as a table.

A table needs all its rows in memory to compute the widths of its columns. JSON is written batch by batch, in constant
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import types

from deltalite.cli.output import Column, Output
from deltalite.cli.values import json_value
from deltalite.sizes import counted


def show_rows(out: Output, schema: pa.Schema, batches: Iterable[pa.RecordBatch], limit: int | None) -> None:
    """Write at most `limit` rows, or all rows if `limit` is None."""
    rows = islice(_rows(batches), limit)
    names = schema.names
    if out.as_json:
        out.records(dict(zip(names, row, strict=True)) for row in rows)
        return
    are_numbers = [types.is_integer(t) or types.is_floating(t) or types.is_decimal(t) for t in schema.types]
    shown_rows = list(rows)
    columns = [Column(name, is_number=is_number) for name, is_number in zip(names, are_numbers, strict=True)]
    out.table(columns, shown_rows)
    if limit is not None and len(shown_rows) == limit:
        out.line()
        out.line(f"{counted(limit, 'row')} shown; there may be more (--limit)")


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Any]]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield [json_value(column[row]) for column in batch.columns]
