"""The training job of a class archive: `spark-submit training.py FOLDER PROBLEM_FILE`.

The JVM of this script writes an archive of the classes that it has loaded (`installation/class_archive_making.py`). So
the script does the same as tasks, with few rows: it reads files of three formats, creates a table, merges into it,
updates it with deletion vectors, and reads it. It writes the error that ended these steps to PROBLEM_FILE, or an empty
text if they succeeded. All other files are in FOLDER. The caller removes all files.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deltalite.commands.merge import merge
from deltalite.commands.update import update
from deltalite.commands.write import write
from deltalite.requests import MergeClause, MergeRequest, Source, UpdateRequest, WriteRequest
from deltalite.spark import read
from deltalite.spark.runtime.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = """
CAST(id AS BIGINT) AS id, CAST(n AS INT) AS n, CAST(amount AS DECIMAL(12, 2)) AS amount,
CAST(name AS STRING) AS name, CAST(at AS TIMESTAMP) AS at, CAST(day AS DATE) AS day
"""
_QUERY = " UNION ALL ".join(f"SELECT {_COLUMNS} FROM {name}" for name in ("csv", "json", "parquet"))  # noqa: S608  constants
_CSV_OPTIONS = {"header": "true"}


def train(spark: SparkSession, folder: Path) -> None:
    """Write, merge, update and read a table in `folder`. One merge only inserts, the other only updates."""
    table = str(folder / "table")
    sources = _make_sources(spark, folder)
    properties = {"delta.enableDeletionVectors": "true"}
    write(
        spark,
        WriteRequest(table=table, sources=sources, query=_QUERY, partition_by=("day",), properties=properties),
    )
    upsert = partial(
        MergeRequest,
        table=table,
        when_matched=(MergeClause(update="*"),),
        when_not_matched=(MergeClause(insert="*"),),
    )
    merge(
        spark,
        upsert(
            sources={"s": sources["parquet"], "t": Source(format="delta", path=table)},
            query="SELECT s.* FROM s LEFT JOIN t ON s.id = t.id AND t.n < 0 WHERE s.n < 2",
            on="target.id = source.id AND target.n + 1 = source.n",
        ),
    )
    merge(spark, upsert(sources={"s": sources["parquet"]}, on="target.id = source.id"))
    update(spark, UpdateRequest(table=table, condition="id % 5 = 1", set={"n": "n + 1"}))
    read(spark, table).where("n = 1").groupBy("day").count().orderBy("day").collect()


def _make_sources(spark: SparkSession, folder: Path) -> dict[str, Source]:
    """Write rows as CSV, JSON and Parquet, and return the sources by their format."""
    rows = spark.range(100).selectExpr(
        "id",
        "CAST(id % 7 AS INT) AS n",
        "CAST(id AS DECIMAL(12, 2)) AS amount",
        "CAST(id AS STRING) AS name",
        "timestamp_seconds(id) AS at",
        "date_add(DATE'2026-01-01', CAST(id % 3 AS INT)) AS day",
    )
    sources = {}
    for part, (name, options) in enumerate({"csv": _CSV_OPTIONS, "json": {}, "parquet": {}}.items()):
        path = str(folder / name)
        rows.where(f"id % 3 = {part}").write.format(name).options(**options).save(path)
        sources[name] = Source(format=name, path=path, options=options)
    return sources


if __name__ == "__main__":
    session = open_session("deltalite training")
    problem = ""
    try:
        train(session, Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001  the JVM makes an archive of the classes that it has loaded
        problem = f"{type(error).__name__}: {error}"
    Path(sys.argv[2]).write_text(problem, encoding="utf-8")
    session.stop()
