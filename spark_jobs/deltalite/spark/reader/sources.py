"""The sources of a task as DataFrames, and the query over them.

If there is a query, each source becomes a temporary view while the rows are needed. The key of the source is the name
of the view. A mistake of the user (a missing path, a query that does not parse) raises a typed error with the parameter
and the first line of Spark's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from deltalite.errors import InvalidRequestError, SourceError, SourceNotFoundError
from deltalite.requests import Deduplicate, Source
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import quoted
from deltalite.spark.columns.valid_texts import with_valid_texts
from deltalite.spark.reader.changes import changes
from deltalite.spark.reader.deduplicating import deduplicate_rows
from deltalite.spark.reader.incremental import SourceLoad, load_rows
from deltalite.spark.reader.read import snapshot_at
from deltalite.spark.reader.row_ids import scan_with_named_row_ids
from deltalite.spark.runtime.errors import SPARK_ERRORS, first_line, is_missing_path
from deltalite.spark.scan.frame import scan
from deltalite.storage.versioned_path import VersionedPath, resolve_version


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRows:
    """The rows of a query, and the versions of its Delta sources by view name.

    The version of a change feed is its last version. A change feed is left out if the request names no last version.
    """

    frame: DataFrame
    source_versions: Mapping[str, int]


@contextmanager
def query_rows(
    spark: SparkSession,
    sources: Mapping[str, Source],
    query: str | None,
    query_params: Mapping[str, object] | None = None,
    *,
    deduplicate: Deduplicate | None = None,
    loads: Mapping[str, SourceLoad] | None = None,
) -> Iterator[QueryRows]:
    """Yield the rows of `query` over the sources. Without a query, yield the rows of the only source.

    `deduplicate` applies to the rows of the query; see `deduplicate_rows`.
    `loads` says which rows of an incremental source to load, by the name of the source.
    `query_params` are bound to the markers `:name` as values. They never become part of the query's text.

    Raises:
        SourceNotFoundError: the path of a source does not exist.
        SourceError: a source cannot be read.
        InvalidRequestError: the query, a schema or a name is wrong.
        DeltaLiteError: other errors of a Delta table, as `read` and `changes` raise them.
    """
    loads = loads or {}
    snapshots = {name: delta_snapshot(spark, source) for name, source in sources.items() if _is_table(source)}

    def rows_of(name: str, source: Source) -> DataFrame:
        if source.incremental is not None:
            return load_rows(spark, loads[name])
        if name in snapshots:
            return _table_rows(spark, source, snapshots[name])
        return _read_source(spark, name, source)

    frames = {name: rows_of(name, source) for name, source in sources.items()}
    last_versions = {name: source.changes_to_version for name, source in sources.items()}
    versions = {name: version for name, version in last_versions.items() if version is not None}
    versions |= {name: snapshot.version for name, snapshot in snapshots.items()}
    versions |= {name: load.snapshot.version for name, load in loads.items()}
    with query_frames(spark, frames, query, query_params) as frame:
        yield QueryRows(frame=deduplicate_rows(frame, deduplicate), source_versions=versions)


@contextmanager
def query_frames(
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    query: str | None,
    query_params: Mapping[str, object] | None = None,
) -> Iterator[DataFrame]:
    """Yield the rows of `query` over the frames by the names of their views. Without a query, yield the only frame.

    Raises:
        InvalidRequestError: the query or a name is wrong.
    """
    if query is None:
        yield next(iter(frames.values()))
        return
    try:
        for name, frame in frames.items():
            _create_view(frame, name)
        yield _run_query(spark, query, query_params or {}, tuple(frames))
    finally:
        for name in frames:
            spark.catalog.dropTempView(name)


def rows_of_query(rows: DataFrame, view: str, query: str, *, parameter: str) -> DataFrame:
    """Return the rows of a query over `rows`, which the query calls `view`. Errors name the `parameter` of the request.

    Raises:
        InvalidRequestError: the query is wrong.
    """
    spark = rows.sparkSession
    rows.createOrReplaceTempView(view)
    try:
        return spark.sql(query)
    except (AnalysisException, ParseException) as error:
        raise InvalidRequestError(
            f"{parameter} is wrong: {first_line(error)}", remedy=f"Correct the expressions in `{parameter}`."
        ) from error
    finally:
        spark.catalog.dropTempView(view)


def delta_snapshot(spark: SparkSession, source: Source) -> Snapshot:
    """Load the snapshot of a source of format `delta`."""
    return snapshot_at(spark, delta_address(source))


def delta_address(source: Source) -> VersionedPath:
    """Return the address of a Delta source, with the version or time that it is pinned to, if any."""
    return resolve_version(source.path or "", source.version_as_of, source.timestamp_as_of)


def _is_table(source: Source) -> bool:
    """Whether the source is one version of a Delta table."""
    is_range = source.changes_from_version is not None or source.incremental is not None
    return source.format.lower() == "delta" and not is_range


def _table_rows(spark: SparkSession, source: Source, snapshot: Snapshot) -> DataFrame:
    if source.reads_row_ids:
        return scan_with_named_row_ids(spark, snapshot, snapshot.files)
    return scan(spark, snapshot)


def _read_source(spark: SparkSession, name: str, source: Source) -> DataFrame:
    """Return the rows of a change feed, or of a source in another format than Delta."""
    if source.changes_from_version is not None:
        return changes(spark, source.path or "", source.changes_from_version, source.changes_to_version)
    reader = spark.read.format(source.format).options(**source.options)
    try:
        if source.schema is not None:
            reader = reader.schema(source.schema)
        rows = reader.load(source.path) if source.path is not None else reader.load()
        return with_valid_texts(rows) if source.format.lower() == "text" else rows
    except ParseException as error:
        raise InvalidRequestError(
            f"The schema of the source '{name}' is not DDL: {first_line(error)}",
            remedy="Write the schema as 'id BIGINT, name STRING'.",
        ) from error
    except SPARK_ERRORS as error:
        if is_missing_path(error):
            raise SourceNotFoundError(
                f"The source '{name}' ({source.format} at {source.path!r}) does not exist: {first_line(error)}",
                remedy="Correct the path, or wait for the input. Set `retries` so that Airflow runs the task again.",
            ) from error
        raise SourceError(
            f"The source '{name}' ({source.format} at {source.path!r}) cannot be read: {first_line(error)}",
            remedy="Check that the input exists and that its format and options are right.",
        ) from error


def _create_view(frame: DataFrame, name: str) -> None:
    try:
        frame.createOrReplaceTempView(name)
    except AnalysisException as error:
        raise InvalidRequestError(
            f"The source name {name!r} cannot be the name of a view: {first_line(error)}",
            remedy="Use letters, digits and underscores.",
        ) from error


def _run_query(spark: SparkSession, query: str, params: Mapping[str, object], views: tuple[str, ...]) -> DataFrame:
    try:
        return spark.sql(query, args=dict(params)) if params else spark.sql(query)
    except (AnalysisException, ParseException) as error:
        raise InvalidRequestError(
            f"The query is wrong: {first_line(error)}",
            remedy=f"Correct `query`; it can use the views {', '.join(quoted(v) for v in views)}.",
        ) from error
