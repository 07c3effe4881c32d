"""Log replay in Spark, for logs that do not fit into a driver. It returns the files of `log.replay` as a DataFrame.

Every add and remove in the segment's checkpoint, sidecars, compactions and commits becomes a row with its version. Of
the rows for one file (its canonical path and the id of its deletion vector) the newest wins; within one version an add
wins over a remove. Only the names of the log's files pass through the driver. Protocol: Action Reconciliation.
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
from deltalite.log.listing import LogEntry, list_log
from deltalite.log.replay import check_compaction
from deltalite.log.segment import LogSegment
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.protocol.paths import NO_AUTHORITY, NOT_CANONICAL, SCHEME, SCHEME_AND_AUTHORITY
from deltalite.spark.columns.names import named
from deltalite.spark.hadoop.uris import glob_escaped, spark_uri
from deltalite.storage.log_store import LogStore

_VECTOR = (
    "STRUCT<storageType: STRING, pathOrInlineDv: STRING, offset: BIGINT, sizeInBytes: BIGINT, cardinality: BIGINT>"
)
_MAP = "MAP<STRING, STRING>"
# Numbers are read as BIGINT, because writers of checkpoints use different widths.
_DDL = {
    "path": "STRING",
    "partitionValues": _MAP,
    "size": "BIGINT",
    "modificationTime": "BIGINT",
    "stats": "STRING",
    "deletionVector": _VECTOR,
    "tags": _MAP,
    "baseRowId": "BIGINT",
    "defaultRowCommitVersion": "BIGINT",
    "clusteringProvider": "STRING",
    "deletionTimestamp": "BIGINT",
    "extendedFileMetadata": "BOOLEAN",
}
_COLUMNS: dict[type[AddFile | RemoveFile], tuple[str, ...]] = {
    AddFile: tuple(ADD_TYPES),
    RemoveFile: tuple(REMOVE_TYPES),
}
_STATS_PARSED = "stats_parsed"
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"


def replayed_files(spark: SparkSession, store: LogStore, segment: LogSegment) -> DataFrame:
    """Return the active files of a segment with the columns of `ADD_TYPES`, numbers as BIGINT, in any order.

    Raises:
        CorruptCheckpointError: the files of the checkpoint that name its sidecars cannot be read.
        CorruptLogError: a compaction cannot be used, and its commits are gone.
    """
    return _replayed(spark, store, segment, AddFile)


def replayed_tombstones(spark: SparkSession, store: LogStore, segment: LogSegment) -> DataFrame:
    """Return the tombstones of the log, even expired ones, with the columns of `REMOVE_TYPES`, numbers as BIGINT."""
    return _replayed(spark, store, segment, RemoveFile)


def _replayed(spark: SparkSession, store: LogStore, segment: LogSegment, kind: type[AddFile | RemoveFile]) -> DataFrame:
    actions = reduce(DataFrame.unionByName, _file_actions(spark, store, _without_compactions(store, segment), kind))
    newest = actions.groupBy("key").agg(F.max_by(F.struct("is_wanted", "file"), "order").alias("last"))
    return newest.where("last.is_wanted").select("last.file.*")


def _without_compactions(store: LogStore, segment: LogSegment) -> LogSegment:
    """Return the segment without compactions, which save nothing when files are read in parallel.

    If the log no longer has the commits, the compactions are checked and kept. Raises `CorruptLogError`.
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


def _file_actions(
    spark: SparkSession, store: LogStore, segment: LogSegment, kind: type[AddFile | RemoveFile]
) -> Iterator[DataFrame]:
    """Yield frames with a row (key, order, is_wanted, file) for each add and remove in a group of log files."""
    for version, names in _groups(store, segment):
        for read, suffix in ((_read_json, ".json"), (_read_parquet, ".parquet")):
            names_of_format = [name for name in names if name.endswith(suffix)]
            if names_of_format:
                rows = read(spark, [f"{spark_uri(store.root)}/{name}" for name in names_of_format])
                for action_kind in (AddFile, RemoveFile):
                    yield _rows(rows, action_kind, kind, version)


def _groups(store: LogStore, segment: LogSegment) -> Iterator[tuple[int | None, Sequence[str]]]:
    """Yield the files of a segment with their version, or None if each file's name has its version."""
    if segment.checkpoint is not None:
        yield segment.checkpoint.version, (*segment.checkpoint.names, *sidecar_names(store, segment.checkpoint))
    for entry in segment.entries:
        if entry.is_compaction:
            yield entry.last_version, (entry.file.name,)
    yield None, tuple(commit.name for commit in segment.commits)


def _read_json(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    text = spark_types.StructField(_STATS_PARSED, spark_types.StringType())  # as a string, Spark returns the JSON text
    rows = spark.read.schema(_schema(text)).json([glob_escaped(uri) for uri in uris], mode="FAILFAST")
    return _with_stats(rows, F.col(f"add.{_STATS_PARSED}"))


def _read_parquet(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    paths = [glob_escaped(uri) for uri in uris]
    # The last file is a sidecar if there are any. All files of one checkpoint have the same schema.
    add = next((f.dataType for f in spark.read.parquet(paths[-1]).schema if f.name == AddFile.action), None)
    parsed = add[_STATS_PARSED] if isinstance(add, spark_types.StructType) and _STATS_PARSED in add.names else None
    rows = spark.read.schema(_schema(parsed)).parquet(*paths)
    if parsed is None:
        return rows
    # With all fractional digits. By default Spark cuts to milliseconds, which is below the true upper bound.
    options = {"timestampFormat": f"{_TIME}'Z'", "timestampNTZFormat": _TIME, "timeZone": "UTC"}
    return _with_stats(rows, F.to_json(F.col(f"add.{_STATS_PARSED}"), options))


def _with_stats(rows: DataFrame, texts: Column) -> DataFrame:
    """Return the rows, with statistics from `stats_parsed` for an add that has no others."""
    add = F.col("add").withField("stats", F.coalesce(F.col("add.stats"), texts)).dropFields(_STATS_PARSED)
    return rows.withColumn("add", F.when(F.col("add").isNotNull(), add))


def _schema(stats_parsed: spark_types.StructField | None = None) -> spark_types.StructType:
    fields = []
    for cls, columns in _COLUMNS.items():
        members = [spark_types.StructField(c, spark_types.DataType.fromDDL(_DDL[c])) for c in columns]
        if stats_parsed is not None and cls is AddFile:
            members.append(stats_parsed)
        fields.append(spark_types.StructField(cls.action, spark_types.StructType(members)))
    return spark_types.StructType(fields)


def _rows(
    actions: DataFrame, kind: type[AddFile | RemoveFile], wanted: type[AddFile | RemoveFile], version: int | None
) -> DataFrame:
    """Return the rows of one kind of action; only rows of the wanted kind have the columns of the file."""
    action = named(kind.action)
    order = F.lit(version) if version is not None else _version_of_file()
    no_file = F.lit(None).cast(_schema()[wanted.action].dataType)
    return actions.where(action.isNotNull()).select(
        _key(action).alias("key"),
        (order.cast("bigint") * 2 + int(kind is AddFile)).alias("order"),
        F.lit(kind is wanted).alias("is_wanted"),
        (action if kind is wanted else no_file).alias("file"),
    )


def _version_of_file() -> Column:
    return F.regexp_extract(F.col("_metadata.file_name"), r"^(\d{20})\.json$", 1)


def _key(action: Column) -> Column:
    """Return `file_table.file_key` as a struct: the canonical path, and the id of the deletion vector."""
    path, vector = action["path"], action["deletionVector"]
    missing = F.raise_error(F.lit("The log names a file without a path."))
    key_path = F.when(path.isNull(), missing).otherwise(canonical_path(path))
    return F.struct(key_path.alias("path"), deletion_vector_id(vector).alias("vector"))


def canonical_path(path: Column) -> Column:
    """Apply `paths.canonical_path` to a column of paths. Most paths cost only one pattern match."""
    normal = F.regexp_replace(F.regexp_replace(_normalised(path), "^file:/+", "/"), NO_AUTHORITY.pattern, "$1:/")
    decoded = F.coalesce(F.try_url_decode(F.replace(normal, F.lit("+"), F.lit("%2B"))), normal)
    return F.when(path.rlike(NOT_CANONICAL), decoded).otherwise(path)


def _normalised(path: Column) -> Column:
    """Apply `paths._normalised` to a column of paths, segment by segment."""
    place = F.regexp_extract(path, SCHEME_AND_AUTHORITY.pattern, 0)
    rest = F.substr(path, F.length(place) + 1)
    nothing = F.struct(F.array().cast("array<string>").alias("kept"), F.lit(False).alias("ends_open"))
    steps = F.aggregate(F.split(rest, "/"), nothing, _with_segment)
    kept = F.array_join(steps["kept"], "/")
    normal = F.concat(kept, F.when(steps["ends_open"] & (kept != ""), "/").otherwise(""))
    is_scheme = f"^{SCHEME.pattern}"
    dot = F.when(normal.rlike(is_scheme) & ~path.rlike(is_scheme), "./").otherwise("")
    return F.when(rest.startswith("/"), F.concat(place, F.lit("/"), normal)).otherwise(F.concat(place, dot, normal))


def _with_segment(steps: Column, segment: Column) -> Column:
    """Add one segment to the kept segments of a path, and track whether the path ends with a slash."""
    kept, is_up = steps["kept"], segment == ".."
    leads_out = is_up & (F.coalesce(F.try_element_at(kept, F.lit(-1)), F.lit("..")) == "..")
    parts = (
        F.when(segment.isin("", "."), kept)
        .when(is_up & ~leads_out, F.slice(kept, 1, F.size(kept) - 1))
        .otherwise(F.array_append(kept, segment))
    )
    return F.struct(parts.alias("kept"), (segment.isin("", "..", ".") & ~leads_out).alias("ends_open"))


def deletion_vector_id(vector: Column) -> Column:
    """Apply `file_table.deletion_vector_id` to a column of descriptors; null without a deletion vector."""
    offset = F.coalesce(F.concat(F.lit("@"), vector["offset"].cast("string")), F.lit(""))
    return F.when(vector.isNotNull(), F.concat(vector["storageType"], vector["pathOrInlineDv"], offset))
