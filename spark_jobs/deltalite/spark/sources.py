"""The inputs of a task as DataFrames, and the query over them.

Each source becomes a temporary view named by its key for as long as the rows are needed. What the user got wrong (a
path that does not exist, a query that does not parse) is a typed error that quotes Spark's first line and says which
parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from deltalite.errors import InvalidRequestError, SourceError
from deltalite.requests import Source
from deltalite.snapshot import Snapshot
from deltalite.spark.changes import changes
from deltalite.spark.columns import quoted
from deltalite.spark.errors import SPARK_ERRORS, first_line
from deltalite.spark.read import snapshot_at
from deltalite.spark.scan import scan
from deltalite.storage.versioned_path import VersionedPath, resolve_version


@contextmanager
def query_rows(spark: SparkSession, sources: Mapping[str, Source], query: str | None) -> Iterator[DataFrame]:
    """The rows that `query` makes of the sources, or those of the only source.

    Raises:
        SourceError: a source does not exist or cannot be read.
        InvalidRequestError: the query, a schema or a name is wrong.
    """
    frames = {name: _read(spark, name, source) for name, source in sources.items()}
    if query is None:
        yield next(iter(frames.values()))
        return
    try:
        for name, frame in frames.items():
            _create_view(frame, name)
        yield _run(spark, query, tuple(frames))
    finally:
        for name in frames:
            spark.catalog.dropTempView(name)


def delta_snapshot(spark: SparkSession, source: Source) -> Snapshot:
    """The snapshot that a source of format `delta` names."""
    return snapshot_at(spark, delta_version(source))


def delta_version(source: Source) -> VersionedPath:
    """The address of a Delta source, and the version or time it is pinned to, if any."""
    return resolve_version(source.path or "", source.version_as_of, source.timestamp_as_of)


def _read(spark: SparkSession, name: str, source: Source) -> DataFrame:
    if source.format.lower() == "delta" and source.changes_from_version is not None:
        return changes(spark, source.path or "", source.changes_from_version, source.changes_to_version)
    if source.format.lower() == "delta":
        return scan(spark, delta_snapshot(spark, source))
    reader = spark.read.format(source.format).options(**source.options)
    try:
        if source.schema is not None:
            reader = reader.schema(source.schema)
        return reader.load(source.path) if source.path is not None else reader.load()
    except ParseException as error:
        raise InvalidRequestError(
            f"The schema of the source '{name}' is not DDL: {first_line(error)}",
            remedy="Write it as 'id BIGINT, name STRING'.",
        ) from error
    except SPARK_ERRORS as error:
        raise SourceError(
            f"The source '{name}' ({source.format} at {source.path!r}) cannot be read: {first_line(error)}",
            remedy="Check that the input exists and that its format and options are right.",
        ) from error


def _create_view(frame: DataFrame, name: str) -> None:
    try:
        frame.createOrReplaceTempView(name)
    except AnalysisException as error:
        raise InvalidRequestError(
            f"The source name {name!r} is no name of a view: {first_line(error)}",
            remedy="Use letters, digits and underscores.",
        ) from error


def _run(spark: SparkSession, query: str, views: tuple[str, ...]) -> DataFrame:
    try:
        return spark.sql(query)
    except (AnalysisException, ParseException) as error:
        raise InvalidRequestError(
            f"The query is wrong: {first_line(error)}",
            remedy=f"Correct `query`; it can use the views {', '.join(quoted(v) for v in views)}.",
        ) from error
