"""Paths of the log: Python, Spark and Hadoop's own `Path` take the same spellings for one file."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.log.file_table import DELETION_VECTOR, key_column
from deltalite.protocol.paths import canonical_path
from deltalite.spark.large_tables.distributed_replay import canonical_path as canonical_column

BEGINNINGS = ("", "", "/", "///", "//h/", "file:/r/", "file:///", "s3://b/", "hdfs://u@nn:9/", "dbfs:/r/", "hdfs:///")
SEGMENTS = ("", ".", "..", "a", "p=1", "b c", ".x", "..y", "x.", "%2E", "%2F", "a%2Fb", "%2e%2E", "ü", "+", "-", "%25")
NAMED = ("a/b", "d//x", "./x", "d/../x", "../x", "a/../../x", "/../a", "a/", "a/.", "a/..", "x/..//a:b/f", "file:////a")


def some_spellings() -> list[str]:
    chance = random.Random(7)
    made = (
        chance.choice(BEGINNINGS) + "/".join(chance.choices(SEGMENTS, k=chance.randint(1, 6))).replace(" ", "%20")
        for _ in range(1500)
    )
    return sorted({*NAMED, *made})


def spelled_by_hadoop(spark, path: str) -> str | None:
    """The canonical spelling as Hadoop's `Path(URI)` gives it; None for a text that Java does not read as a URI."""
    jvm = spark._jvm
    try:
        uri = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path)).toUri()
    except Py4JJavaError:
        return None
    scheme, authority, name = uri.getScheme(), uri.getAuthority(), uri.getPath()
    if authority is None:
        return name if scheme in (None, "file") else f"{scheme}:{name}"
    return f"{scheme}://{authority}{name}" if scheme else f"//{authority}{name}"


@pytest.fixture(scope="module")
def spellings(spark) -> dict[str, str]:
    known = {path: spelled_by_hadoop(spark, path) for path in some_spellings()}
    return {path: spelled for path, spelled in known.items() if spelled is not None}


def test_python_normalises_paths_as_hadoop_does(spellings):
    assert len(spellings) > 1000
    assert {path: canonical_path(path) for path in spellings} == spellings


def test_columns_of_paths_are_normalised_as_single_paths_are(spellings):
    paths = pa.chunked_array([list(spellings)[:400], list(spellings)[400:]], pa.string())
    files = pa.table({"path": paths, "deletionVector": pa.nulls(len(paths), DELETION_VECTOR)})
    assert key_column(files).to_pylist() == list(spellings.values())


def test_spark_normalises_paths_as_hadoop_does(spark, spellings):
    frame = spark.createDataFrame([(path,) for path in spellings], "path STRING").coalesce(1)
    rows = frame.select("path", canonical_column(F.col("path")).alias("spelled")).collect()
    assert {row["path"]: row["spelled"] for row in rows} == spellings
