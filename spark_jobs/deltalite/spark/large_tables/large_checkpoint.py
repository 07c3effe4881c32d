"""Checkpoints of tables with too many files for one process, replayed and written by Spark.

Spark replays the log and encodes the rows in parallel into staged files. The driver reads one of these files at a time
and publishes it. With the table feature v2Checkpoint the files become sidecars. Otherwise they become the parts of a
multi-part checkpoint, the only other kind with more than one file. As the protocol requires, Spark's hash of a row's
file selects the part of the row, so concurrent writers write equal parts. The checkpoint has the rows of
`CheckpointRows`.
Protocol: V2 Spec, Multi-part checkpoint, Checkpoint Schema.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import CorruptCheckpointError, StorageError, VersionGapError, VersionNotFoundError
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES
from deltalite.log.last_checkpoint import LastCheckpoint
from deltalite.log.segment import LogSegment, find_segment
from deltalite.protocol.arrow_schema import type_from_arrow
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import part_name
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.partition_columns import typed_partition_value
from deltalite.spark.columns.types import from_spark, spark_type
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.large_tables.distributed_replay import deletion_vector_id, replayed_files, replayed_tombstones
from deltalite.spark.runtime.errors import SPARK_ERRORS
from deltalite.spark.write.staging import StagedWrite, WriteLayout
from deltalite.upkeep.checkpoint import (
    MAX_FILES_IN_ONE_PROCESS,
    EncodedActions,
    Totals,
    check_file_count,
    estimate_file_count,
    publish_v2,
    record_existing_checkpoint,
    record_new_checkpoint,
    write_checkpoint,
)
from deltalite.upkeep.checkpoint_rows import NON_FILE_TYPES, AddLayout, CheckpointRows
from deltalite.upkeep.stats_struct import COUNT_FIELDS, TIME_PATTERNS, with_texts_for_times

_ACTIONS_PER_FILE = 500_000
# 0 overrides a limit of the session, because each partition must become exactly one file.
_ONE_FILE_PER_PARTITION = WriteLayout(partition_columns=(), max_records_per_file=0)
_PART_FILE_PATTERN = re.compile(r"part-(\d+)-[^/]*$")


def write_any_checkpoint(
    spark: SparkSession, snapshot: Snapshot, now_ms: int, *, large_files: int = MAX_FILES_IN_ONE_PROCESS
) -> LastCheckpoint | None:
    """Write the checkpoint of a snapshot: in this process, or in Spark for more than `large_files` files.

    Return None if the version has a checkpoint already. Raises the errors of `write_checkpoint`.
    """
    if estimate_file_count(snapshot) <= large_files:
        return write_checkpoint(snapshot, now_ms=now_ms)
    return write_large_checkpoint(spark, snapshot, now_ms=now_ms)


def write_large_checkpoint(
    spark: SparkSession, snapshot: Snapshot, *, now_ms: int, actions_per_file: int = _ACTIONS_PER_FILE
) -> LastCheckpoint | None:
    """Write the checkpoint in Spark, even for a small table. Return None if the version has a checkpoint already.

    Raises:
        CorruptLogError: the encoded rows do not match the files of the snapshot. No complete checkpoint is published.
        StorageError: a staged file no longer exists.
    """
    segment, file_count = _readable_segment(spark, snapshot)
    existing_checkpoint = segment.checkpoint_at_version
    if existing_checkpoint is not None:
        record_existing_checkpoint(snapshot.store, existing_checkpoint, file_count=file_count)
        return None
    rows = CheckpointRows(snapshot, now_ms=now_ms)
    adds = _add_rows(replayed_files(spark, snapshot.store, segment), rows.layout)
    removes = _remove_rows(replayed_tombstones(spark, snapshot.store, segment), rows)
    file_actions = adds.unionByName(removes, allowMissingColumns=True)
    checkpoint_file_count = math.ceil((file_count + removes.count()) / actions_per_file)
    with StagedWrite(folder_of(spark, snapshot.store.root), _ONE_FILE_PER_PARTITION) as staging:
        if "v2Checkpoint" in supported_features(snapshot.protocol):  # the feature forbids multi-part checkpoints
            sidecars = _encode(staging, snapshot, file_actions.repartition(max(1, checkpoint_file_count)))
            encoded = (actions for _, actions in sidecars)
            return publish_v2(snapshot, rows, encoded, file_count=file_count, now_ms=now_ms)
        all_actions = _non_file_actions(spark, rows).unionByName(file_actions, allowMissingColumns=True)
        part_count = max(2, checkpoint_file_count)
        parts = _encode(staging, snapshot, all_actions.repartition(part_count, *_part_key(snapshot)))
        return _publish_parts(snapshot, rows, parts, part_count=part_count, file_count=file_count)


def _publish_parts(
    snapshot: Snapshot,
    rows: CheckpointRows,
    parts: Iterable[tuple[int, EncodedActions]],
    *,
    part_count: int,
    file_count: int,
) -> LastCheckpoint:
    """Publish the parts by position, and empty parts for missing positions.

    The last part completes the checkpoint, so the number of files is checked before this part is published.
    """
    remaining_parts = iter(parts)
    totals, next_part = Totals(), next(remaining_parts, None)
    for position in range(part_count):
        part = EncodedActions.none({**NON_FILE_TYPES, **rows.file_types})
        if next_part is not None and next_part[0] == position:
            part, next_part = next_part[1], next(remaining_parts, None)
        totals = totals.plus(part)
        if position == part_count - 1:
            check_file_count(snapshot, totals.num_adds, file_count)
        snapshot.store.write_if_absent(part_name(snapshot.version, position + 1, part_count), part.data)
    return record_new_checkpoint(snapshot, totals, parts=part_count)


def _readable_segment(spark: SparkSession, snapshot: Snapshot) -> tuple[LogSegment, int]:
    """Return a segment of the version that Spark can read, and its number of active files.

    As in `LogState`, an unreadable checkpoint is replaced with other log files of the same content.
    """
    segment, unreadable = snapshot.segment, set[str]()
    while True:
        try:
            return segment, replayed_files(spark, snapshot.store, segment).count()
        except (*SPARK_ERRORS, CorruptCheckpointError) as error:
            if segment.checkpoint is None:
                raise
            unreadable.add(segment.checkpoint.names[0])
            try:
                segment = find_segment(snapshot.store, snapshot.version, unreadable=unreadable)
            except (VersionGapError, VersionNotFoundError):
                raise error from None  # the first error has more details


def _add_rows(files: DataFrame, layout: AddLayout) -> DataFrame:
    columns = {name: column_named(name) for name in ADD_TYPES}
    if layout.partition_values is not None:
        values = [
            typed_partition_value(column_named("partitionValues"), key, data_type).alias(name)
            for name, key, data_type in layout.partition_values.columns
        ]
        columns["partitionValues_parsed"] = F.struct(*values)
    if layout.statistics is not None:
        columns["stats_parsed"] = _parsed_stats(column_named("stats"), layout.statistics.type)
    return files.select(_checkpoint_action(columns, layout.type).alias("add"))


def _remove_rows(tombstones: DataFrame, rows: CheckpointRows) -> DataFrame:
    unexpired = tombstones.where(F.coalesce(column_named("deletionTimestamp"), F.lit(0)) > rows.oldest_tombstone_ms)
    columns = {name: column_named(name) for name in REMOVE_TYPES}
    return unexpired.select(_checkpoint_action(columns, rows.file_types["remove"]).alias("remove"))


def _checkpoint_action(columns: Mapping[str, Column], struct_type: pa.StructType) -> Column:
    """Return the columns as a struct of exactly this type, with `dataChange: false`, as in every checkpoint."""
    members = {**columns, "dataChange": F.lit(False)}
    return F.struct(*[members[f.name].cast(_spark_type(f.type)).alias(f.name) for f in struct_type])


def _parsed_stats(texts: Column, stats_type: pa.StructType) -> Column:
    """Return the statistics struct of JSON texts, as `StatsStruct.parse` does."""
    parsed = F.from_json(texts, cast("spark_types.StructType", _spark_type(with_texts_for_times(stats_type))))
    members = [
        _convert_leaves(parsed[f.name], f.type, _valid_count if f.name in COUNT_FIELDS else _valid_bound).alias(f.name)
        for f in stats_type
    ]
    return F.when(parsed.isNotNull(), F.struct(*members))


def _convert_leaves(values: Column, data_type: pa.DataType, convert: Callable[[Column, pa.DataType], Column]) -> Column:
    """Return values of the type with each leaf converted."""
    if not pa.types.is_struct(data_type):
        return convert(values, data_type)
    members = [_convert_leaves(values[f.name], f.type, convert).alias(f.name) for f in data_type]
    return F.when(values.isNotNull(), F.struct(*members))


def _valid_count(values: Column, _data_type: pa.DataType) -> Column:
    return F.when(values >= 0, values)


def _valid_bound(values: Column, data_type: pa.DataType) -> Column:
    if data_type in TIME_PATTERNS:
        return F.when(values.rlike(TIME_PATTERNS[data_type]), values.try_cast(_spark_type(data_type)))
    if pa.types.is_floating(data_type):  # Spark reads the text "NaN" as a number
        return F.when(F.abs(values) < float("inf"), values)
    return values


def _non_file_actions(spark: SparkSession, rows: CheckpointRows) -> DataFrame:
    """Return the actions other than add and remove, one per row."""
    lines = [json.dumps({kind: body}) for kind, bodies in rows.non_file_actions().items() for body in bodies]
    schema = spark_types.StructType(
        [spark_types.StructField(kind, _spark_type(data_type)) for kind, data_type in NON_FILE_TYPES.items()]
    )
    texts = spark.createDataFrame(pa.table({"line": pa.array(lines, pa.string())}))
    return texts.select(F.from_json("line", schema, {"mode": "FAILFAST"}).alias("action")).select("action.*")


def _part_key(snapshot: Snapshot) -> list[Column]:
    """Return the key that selects the part of a row: the file of the row. All rows without a file are in one part."""
    path = F.coalesce(F.col("add.path"), F.col("remove.path"))
    if "deletionVectors" not in supported_features(snapshot.protocol):
        return [path]
    vector = F.coalesce(F.col("add.deletionVector"), F.col("remove.deletionVector"))
    return [path, deletion_vector_id(vector)]


def _encode(staging: StagedWrite, snapshot: Snapshot, frame: DataFrame) -> Iterator[tuple[int, EncodedActions]]:
    """Write the rows, then yield each Parquet file with its partition number, in the order of these numbers."""
    table = TableSchema(logical=from_spark(frame.schema))
    numbered_files = [(_partition_number(file.name), file.name) for file in staging.write(frame, table, [])]
    for number, name in sorted(numbered_files):
        data = snapshot.store.read(name)
        if data is None:
            raise StorageError(
                f"Cannot write the checkpoint of {snapshot.store.root}: its staged file {name} no longer exists.",
                remedy="Run the task again, and check whether another process deletes files of the table.",
            )
        yield number, EncodedActions.of(data)


def _partition_number(name: str) -> int:
    match = _PART_FILE_PATTERN.search(name)
    if match is None:
        raise RuntimeError(f"Spark wrote the file {name}, and its name has no partition number")
    return int(match[1])


def _spark_type(data_type: pa.DataType) -> spark_types.DataType:
    return spark_type(type_from_arrow(data_type, "a checkpoint"))
