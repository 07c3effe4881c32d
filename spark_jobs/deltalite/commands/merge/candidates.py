"""The files of the target that may hold a row with a match, by the condition ON and the join keys of the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.predicates.predicate import Predicate, conjunction
from deltalite.columnar.skipping.files import prune
from deltalite.snapshot import Snapshot
from deltalite.spark.merge.join_condition import JoinCondition
from deltalite.spark.merge.source_keys import ranges_predicate, source_keys
from deltalite.spark.row_changes.joining import Size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The driver needs a millisecond to test one file against many key ranges.
_MAX_FILES_TESTED_BY_RANGES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The files that may have rows with a match.

    - `may_match`: a predicate that is true for each target row that a source row may match.
    - `source_size`: the size of the source.
    """

    files: pa.Table
    may_match: Predicate
    source_size: Size


def find_candidates(base: Snapshot, source: DataFrame, on: JoinCondition) -> Candidates:
    """Find the files of `base` that may have rows with a match. `source` must be the result of `compute_once`."""
    keys = source_keys(source, on.keys, base.partition_columns)
    may_match = conjunction([on.on_target, keys.on_target])
    files = prune(base.files, may_match, base.table_schema)
    if keys.key_ranges and 1 < files.num_rows <= _MAX_FILES_TESTED_BY_RANGES:
        may_match = conjunction([may_match, ranges_predicate(source, keys)])
        files = prune(files, may_match, base.table_schema)
    return Candidates(files=files, may_match=may_match, source_size=keys.size)
