"""Log replay in Spark, for logs that do not fit into a driver. The result has the same files as `log.replay`.

1. Spark reads each add and remove of the compactions and the commits as a row. Rows belong to the same file if their
   canonical paths and the ids of their deletion vectors are equal.
2. The row of the newest version decides whether a file is active. Within one version an add wins over a remove.
3. For each file without a row in step 1, Spark adds the row of the checkpoint or a sidecar. A valid checkpoint has one
   row for each file, so its rows need no shuffle. Step 1 usually has few files, so each executor gets the keys of all
   of them. Spark reads the commits twice, in steps 2 and 3.

The driver lists the log, and reads only the checkpoint files that name sidecars. Protocol: Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.errors import VersionGapError
from deltalite.log.checkpoint_reader import sidecar_names
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES
from deltalite.log.listing import CheckpointFiles, LogEntry, list_log
from deltalite.log.replay import check_compaction
from deltalite.log.segment import LogSegment
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.protocol.paths import NO_AUTHORITY, NOT_CANONICAL, SCHEME, SCHEME_AND_AUTHORITY, THIS_HOST
from deltalite.spark.columns.names import column_named
from deltalite.spark.hadoop.uris import glob_escaped, spark_uri
from deltalite.storage.log_store import LogStore

_VECTOR_TYPE = (
    "STRUCT<storageType: STRING, pathOrInlineDv: STRING, offset: BIGINT, sizeInBytes: BIGINT, cardinality: BIGINT>"
)
_MAP_TYPE = "MAP<STRING, STRING>"
# Numbers are read as BIGINT, because writers of checkpoints use different widths.
_SQL_TYPES = {
    "path": "STRING",
    "partitionValues": _MAP_TYPE,
    "size": "BIGINT",
    "modificationTime": "BIGINT",
    "stats": "STRING",
    "deletionVector": _VECTOR_TYPE,
    "tags": _MAP_TYPE,
    "baseRowId": "BIGINT",
    "defaultRowCommitVersion": "BIGINT",
    "clusteringProvider": "STRING",
    "deletionTimestamp": "BIGINT",
    "extendedFileMetadata": "BOOLEAN",
}
_COLUMNS_OF_ACTION: dict[type[AddFile | RemoveFile], tuple[str, ...]] = {
    AddFile: tuple(ADD_TYPES),
    RemoveFile: tuple(REMOVE_TYPES),
}
_STATS_PARSED = "stats_parsed"
# If compactions and commits have more bytes, Spark decides whether each executor gets all of their keys.
_MAX_BROADCAST_BYTES = 64 * 1024 * 1024
_TIME_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def replayed_files(spark: SparkSession, store: LogStore, segment: LogSegment) -> DataFrame:
    """Return the active files of a segment, in any order, with the columns of `ADD_TYPES`. All numbers are BIGINT.

    Raises:
        CorruptCheckpointError: a checkpoint file that names sidecars cannot be read.
        CorruptLogError: a compaction is invalid, and the log no longer has its commits.
    """
    return _replayed_actions(spark, store, segment, AddFile)


def replayed_tombstones(spark: SparkSession, store: LogStore, segment: LogSegment) -> DataFrame:
    """Return the tombstones of a segment, including expired tombstones, in any order.

    The result has the columns of `REMOVE_TYPES`. All numbers are BIGINT. Raises the errors of `replayed_files`.
    """
    return _replayed_actions(spark, store, segment, RemoveFile)


def _replayed_actions(
    spark: SparkSession, store: LogStore, segment: LogSegment, result_kind: type[AddFile | RemoveFile]
) -> DataFrame:
    """Return the newest action of each file, if this action is of the kind `result_kind`."""
    segment = _prefer_commits(store, segment)
    newer_rows = list(_rows_after_checkpoint(spark, store, segment, result_kind))
    newest = None
    if newer_rows:
        rows_of_file = reduce(DataFrame.unionByName, newer_rows).groupBy("key")
        newest = rows_of_file.agg(F.max_by(F.struct("is_result", "file"), "order").alias("last"))
    results = [] if newest is None else [newest.where("last.is_result").select("last.file.*")]
    if segment.checkpoint is not None:
        checkpoint_rows = _rows_of_checkpoint(spark, store, segment.checkpoint, result_kind)
        if newest is not None:
            newer_keys = newest.select("key")
            if sum(entry.file.size_bytes for entry in segment.entries) <= _MAX_BROADCAST_BYTES:
                newer_keys = F.broadcast(newer_keys)
            checkpoint_rows = checkpoint_rows.join(newer_keys, "key", "left_anti")
        results.append(checkpoint_rows.select("file.*"))
    return reduce(DataFrame.unionByName, results)


def _rows_of_checkpoint(
    spark: SparkSession, store: LogStore, checkpoint: CheckpointFiles, kind: type[AddFile | RemoveFile]
) -> DataFrame:
    """Return a row (key, file) for each action of the kind `kind` in a checkpoint and its sidecars."""
    rows = [
        _rows(actions, kind, kind, checkpoint.version).select("key", "file")
        for actions in _read_files(spark, store, [*checkpoint.names, *sidecar_names(store, checkpoint)])
    ]
    return reduce(DataFrame.unionByName, rows).where("key.path IS NOT NULL")  # so Spark runs the check of `_key`


def _prefer_commits(store: LogStore, segment: LogSegment) -> LogSegment:
    """Return the segment with commits instead of compactions, because Spark reads commits in parallel.

    If the log no longer has all commits, check the compactions and return the segment unchanged.

    Raises:
        CorruptLogError: a compaction is invalid, and the log no longer has its commits.
    """
    if not segment.compactions:
        return segment
    first = 0 if segment.checkpoint is None else segment.checkpoint.version + 1
    commits = list_log(store, first).commits
    entries = [
        LogEntry(first_version=version, last_version=version, file=commits[version])
        for version in sorted(commits)
        if first <= version <= segment.version
    ]
    try:
        return replace(segment, entries=tuple(entries))
    except VersionGapError:
        for entry in segment.entries:
            if entry.is_compaction:
                check_compaction(store, entry)
        return segment


def _rows_after_checkpoint(
    spark: SparkSession, store: LogStore, segment: LogSegment, result_kind: type[AddFile | RemoveFile]
) -> Iterator[DataFrame]:
    """Yield frames with a row (key, order, is_result, file) for each add and remove in compactions and commits."""
    for version, names in _newer_files(segment):
        for actions in _read_files(spark, store, names):
            for action_kind in (AddFile, RemoveFile):
                yield _rows(actions, action_kind, result_kind, version)


def _read_files(spark: SparkSession, store: LogStore, names: Sequence[str]) -> Iterator[DataFrame]:
    """Yield the actions of log files: one frame for JSON files, and one for Parquet files."""
    for read_format, suffix in ((_read_json, ".json"), (_read_parquet, ".parquet")):
        names_of_format = [name for name in names if name.endswith(suffix)]
        if names_of_format:
            yield read_format(spark, [f"{spark_uri(store.root)}/{name}" for name in names_of_format])


def _newer_files(segment: LogSegment) -> Iterator[tuple[int | None, Sequence[str]]]:
    """Yield groups of compactions and commits with the version of their actions.

    The version of the commits is None, because the name of each commit has its version.
    """
    for entry in segment.entries:
        if entry.is_compaction:
            yield entry.last_version, (entry.file.name,)
    if segment.commits:
        yield None, tuple(commit.name for commit in segment.commits)


def _read_json(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    # Spark returns a JSON object as text if the schema requests a string.
    stats_parsed = spark_types.StructField(_STATS_PARSED, spark_types.StringType())
    rows = spark.read.schema(_schema(stats_parsed)).json([glob_escaped(uri) for uri in uris], mode="FAILFAST")
    return _with_stats(rows, F.col(f"add.{_STATS_PARSED}"))


def _read_parquet(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    paths = [glob_escaped(uri) for uri in uris]
    # The last file is a sidecar if the checkpoint has sidecars. All files of one checkpoint have the same schema.
    add = next((f.dataType for f in spark.read.parquet(paths[-1]).schema if f.name == AddFile.action), None)
    parsed = add[_STATS_PARSED] if isinstance(add, spark_types.StructType) and _STATS_PARSED in add.names else None
    rows = spark.read.schema(_schema(parsed)).parquet(*paths)
    if parsed is None:
        return rows
    # Spark's default format cuts a timestamp to milliseconds, so an upper bound would be below the largest value.
    options = {"timestampFormat": f"{_TIME_FORMAT}'Z'", "timestampNTZFormat": _TIME_FORMAT, "timeZone": "UTC"}
    return _with_stats(rows, F.to_json(F.col(f"add.{_STATS_PARSED}"), options))


def _with_stats(rows: DataFrame, stats_parsed: Column) -> DataFrame:
    """Return the rows without `add.stats_parsed`. Its JSON text replaces `add.stats` where `add.stats` is NULL."""
    add = F.col("add").withField("stats", F.coalesce(F.col("add.stats"), stats_parsed)).dropFields(_STATS_PARSED)
    return rows.withColumn("add", F.when(F.col("add").isNotNull(), add))


def _schema(stats_parsed: spark_types.StructField | None = None) -> spark_types.StructType:
    fields = []
    for kind, columns in _COLUMNS_OF_ACTION.items():
        members = [spark_types.StructField(c, spark_types.DataType.fromDDL(_SQL_TYPES[c])) for c in columns]
        if stats_parsed is not None and kind is AddFile:
            members.append(stats_parsed)
        fields.append(spark_types.StructField(kind.action, spark_types.StructType(members)))
    return spark_types.StructType(fields)


def _rows(
    actions: DataFrame, kind: type[AddFile | RemoveFile], result_kind: type[AddFile | RemoveFile], version: int | None
) -> DataFrame:
    """Return a row (key, order, is_result, file) for each action of the kind `kind`.

    `file` is NULL if `kind` is not `result_kind`.
    """
    action = column_named(kind.action)
    order = F.lit(version) if version is not None else _version_of_file()
    no_file = F.lit(None).cast(_schema()[result_kind.action].dataType)
    return actions.where(action.isNotNull()).select(
        _key(action).alias("key"),
        (order.cast("bigint") * 2 + int(kind is AddFile)).alias("order"),
        F.lit(kind is result_kind).alias("is_result"),
        (action if kind is result_kind else no_file).alias("file"),
    )


def _version_of_file() -> Column:
    return F.regexp_extract(F.col("_metadata.file_name"), r"^(\d{20})\.json$", 1)


def _key(action: Column) -> Column:
    """Return `file_table.file_key` as a struct: the canonical path, and the id of the deletion vector."""
    path, vector = action["path"], action["deletionVector"]
    missing_path_error = F.raise_error(F.lit("The log has an action on a file without a path."))
    key_path = F.when(path.isNull(), missing_path_error).otherwise(canonical_path(path))
    return F.struct(key_path.alias("path"), deletion_vector_id(vector).alias("vector"))


def canonical_path(path: Column) -> Column:
    """Return `paths.canonical_path` of a column of paths.

    A path that is not canonical contains one of a few texts, such as `%` or `//` (`paths.is_certainly_canonical`).
    Most paths contain none of them, and a search for them takes a tenth of the time of the pattern.
    """
    has_special_start = path.startswith(".") | path.startswith("file:")
    is_not_plain = has_special_start | path.contains("%") | path.contains("//") | path.contains("/.")
    without_host = F.regexp_replace(path, f"^{THIS_HOST}", "file:///")
    absolute = F.regexp_replace(_normalized(without_host), "^file:/+", "/")
    normal = F.regexp_replace(absolute, NO_AUTHORITY.pattern, "$1:/")
    decoded = F.coalesce(F.try_url_decode(F.replace(normal, F.lit("+"), F.lit("%2B"))), normal)
    return F.when(is_not_plain & path.rlike(NOT_CANONICAL), decoded).otherwise(path)


def _normalized(path: Column) -> Column:
    """Return a column of paths in normal form, as `protocol.paths` makes it. No path may have the host `localhost`."""
    prefix = F.regexp_extract(path, SCHEME_AND_AUTHORITY.pattern, 0)
    path_part = F.substr(path, F.length(prefix) + 1)
    no_segments = F.struct(F.array().cast("array<string>").alias("segments"), F.lit(False).alias("ends_with_slash"))
    state = F.aggregate(F.split(path_part, "/"), no_segments, _with_segment)
    joined = F.array_join(state["segments"], "/")
    normal = F.concat(joined, F.when(state["ends_with_slash"] & (joined != ""), "/").otherwise(""))
    scheme_pattern = f"^{SCHEME.pattern}"
    dot_prefix = F.when(normal.rlike(scheme_pattern) & ~path.rlike(scheme_pattern), "./").otherwise("")
    return F.when(path_part.startswith("/"), F.concat(prefix, F.lit("/"), normal)).otherwise(
        F.concat(prefix, dot_prefix, normal)
    )


def _with_segment(state: Column, segment: Column) -> Column:
    """Return the state of `_normalized` (`segments`, `ends_with_slash`) after the next segment of the path."""
    segments, is_up = state["segments"], segment == ".."
    leaves_root = is_up & (F.coalesce(F.try_element_at(segments, F.lit(-1)), F.lit("..")) == "..")
    new_segments = (
        F.when(segment.isin("", "."), segments)
        .when(is_up & ~leaves_root, F.slice(segments, 1, F.size(segments) - 1))
        .otherwise(F.array_append(segments, segment))
    )
    return F.struct(
        new_segments.alias("segments"), (segment.isin("", "..", ".") & ~leaves_root).alias("ends_with_slash")
    )


def deletion_vector_id(vector: Column) -> Column:
    """Return `file_table.deletion_vector_id` of a column of descriptors. The id of a NULL descriptor is NULL."""
    offset = F.coalesce(F.concat(F.lit("@"), vector["offset"].cast("string")), F.lit(""))
    return F.when(vector.isNotNull(), F.concat(vector["storageType"], vector["pathOrInlineDv"], offset))
