"""Log replay in Spark, for logs that outgrow a driver: the same files as `log.replay` gives, as a DataFrame.

Every add and remove of the segment's checkpoint, sidecars, compactions and commits becomes a row with the version that
states it; of the rows about one file (its canonical path and the id of its deletion vector) the newest wins, and within
one version an add goes before a remove. Nothing but the names of the log's files passes through the driver. Protocol:
Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.log.checkpoint_reader import sidecar_names
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES
from deltalite.log.segment import LogSegment
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.spark.columns import named
from deltalite.spark.uris import glob_escaped, spark_uri
from deltalite.storage.log_store import LogStore

_VECTOR = (
    "STRUCT<storageType: STRING, pathOrInlineDv: STRING, offset: BIGINT, sizeInBytes: BIGINT, cardinality: BIGINT>"
)
_MAP = "MAP<STRING, STRING>"
# Numbers are read as BIGINT, since writers of checkpoints differ in how wide they make them.
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
    """The active files of a segment: the columns of `ADD_TYPES`, numbers as BIGINT, in no particular order.

    Raises:
        CorruptCheckpointError: the checkpoint's own files, which name its sidecars, cannot be read.
    """
    return _replayed(spark, store, segment, AddFile)


def replayed_tombstones(spark: SparkSession, store: LogStore, segment: LogSegment) -> DataFrame:
    """The removed files that the log remembers, expired ones too: the columns of `REMOVE_TYPES`, numbers as BIGINT."""
    return _replayed(spark, store, segment, RemoveFile)


def _replayed(spark: SparkSession, store: LogStore, segment: LogSegment, kind: type[AddFile | RemoveFile]) -> DataFrame:
    stated = reduce(DataFrame.unionByName, _stated(spark, store, segment, kind))
    newest = stated.groupBy("key").agg(F.max_by(F.struct("is_wanted", "file"), "order").alias("last"))
    return newest.where("last.is_wanted").select("last.file.*")


def _stated(
    spark: SparkSession, store: LogStore, segment: LogSegment, kind: type[AddFile | RemoveFile]
) -> Iterator[DataFrame]:
    """Rows (key, order, is_wanted, file), one for each add and remove, from each group of files of the log."""
    for version, names in _groups(store, segment):
        for read, of_format in ((_read_json, ".json"), (_read_parquet, ".parquet")):
            chosen = [name for name in names if name.endswith(of_format)]
            if chosen:
                rows = read(spark, [f"{spark_uri(store.root)}/{name}" for name in chosen])
                for stating in (AddFile, RemoveFile):
                    yield _rows(rows, stating, kind, version)


def _groups(store: LogStore, segment: LogSegment) -> Iterator[tuple[int | None, Sequence[str]]]:
    """The files of a segment with the version that they state; None where each file's name says it."""
    if segment.checkpoint is not None:
        yield segment.checkpoint.version, (*segment.checkpoint.names, *sidecar_names(store, segment.checkpoint))
    for entry in segment.entries:
        if entry.is_compaction:
            yield entry.last_version, (entry.file.name,)
    yield None, tuple(commit.name for commit in segment.commits)


def _read_json(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    text = spark_types.StructField(_STATS_PARSED, spark_types.StringType())  # Spark gives the object's own text
    rows = spark.read.schema(_schema(text)).json([glob_escaped(uri) for uri in uris], mode="FAILFAST")
    return _with_stats(rows, F.col(f"add.{_STATS_PARSED}"))


def _read_parquet(spark: SparkSession, uris: Sequence[str]) -> DataFrame:
    paths = [glob_escaped(uri) for uri in uris]
    # The last is a sidecar where there are any; the files of one checkpoint are alike.
    add = next((f.dataType for f in spark.read.parquet(paths[-1]).schema if f.name == AddFile.action), None)
    parsed = add[_STATS_PARSED] if isinstance(add, spark_types.StructType) and _STATS_PARSED in add.names else None
    rows = spark.read.schema(_schema(parsed)).parquet(*paths)
    if parsed is None:
        return rows
    # All digits that a time may have: by default Spark cuts to milliseconds, below the true upper bound.
    options = {"timestampFormat": f"{_TIME}'Z'", "timestampNTZFormat": _TIME, "timeZone": "UTC"}
    return _with_stats(rows, F.to_json(F.col(f"add.{_STATS_PARSED}"), options))


def _with_stats(rows: DataFrame, texts: Column) -> DataFrame:
    """The rows with statistics from `stats_parsed` where an add has them in no other form."""
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
    actions: DataFrame, stating: type[AddFile | RemoveFile], wanted: type[AddFile | RemoveFile], version: int | None
) -> DataFrame:
    """What the actions of one kind state, with the files' columns where the kind is the wanted one."""
    is_add = stating is AddFile
    stated = named(stating.action)
    order = F.lit(version) if version is not None else _version_of_file()
    nothing = F.lit(None).cast(_schema()[wanted.action].dataType)
    return actions.where(stated.isNotNull()).select(
        _key(stated).alias("key"),
        (order.cast("bigint") * 2 + int(is_add)).alias("order"),
        F.lit(stating is wanted).alias("is_wanted"),
        (stated if stating is wanted else nothing).alias("file"),
    )


def _version_of_file() -> Column:
    return F.regexp_extract(F.col("_metadata.file_name"), r"^(\d{20})\.json$", 1)


def _key(action: Column) -> Column:
    """`file_table.file_key` as a struct: the canonical path, and the id of the deletion vector."""
    path, vector = action["path"], action["deletionVector"]
    decoded = F.coalesce(F.try_url_decode(F.replace(path, F.lit("+"), F.lit("%2B"))), path)
    checked = F.when(path.isNull(), F.raise_error(F.lit("The log names a file without a path."))).otherwise(decoded)
    canonical = F.regexp_replace(checked, "^file:/+", "/")
    return F.struct(canonical.alias("path"), deletion_vector_id(vector).alias("vector"))


def deletion_vector_id(vector: Column) -> Column:
    """`file_table.deletion_vector_id` of a column of descriptors, null where there is none."""
    offset = F.coalesce(F.concat(F.lit("@"), vector["offset"].cast("string")), F.lit(""))
    return F.when(vector.isNotNull(), F.concat(vector["storageType"], vector["pathOrInlineDv"], offset))
