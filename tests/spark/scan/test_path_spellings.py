"""Python and Spark normalise the paths of the log as Hadoop's `Path` does."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F  # noqa: N812  the usual name

from deltalite.log.file_table import DELETION_VECTOR, key_column
from deltalite.protocol.paths import canonical_path
from deltalite.spark.large_tables.distributed_replay import canonical_path as canonical_column

BEGINNINGS = ("", "", "/", "///", "//h/", "file:/r/", "file:///", "s3://b/", "hdfs://u@nn:9/", "dbfs:/r/", "hdfs:///")
SEGMENTS = ("", ".", "..", "a", "p=1", "b c", ".x", "..y", "x.", "%2E", "%2F", "a%2Fb", "%2e%2E", "ü", "+", "-", "%25")
FIXED_PATHS = (
    "a/b",
    "d//x",
    "./x",
    "d/../x",
    "../x",
    "a/../../x",
    "/../a",
    "a/",
    "a/.",
    "a/..",
    "x/..//a:b/f",
    "file:////a",
)


def sample_paths() -> list[str]:
    """The fixed paths, and random combinations of beginnings and segments."""
    random_source = random.Random(7)
    random_paths = (
        random_source.choice(BEGINNINGS)
        + "/".join(random_source.choices(SEGMENTS, k=random_source.randint(1, 6))).replace(" ", "%20")
        for _ in range(1500)
    )
    return sorted({*FIXED_PATHS, *random_paths})


def canonical_by_hadoop(hadoop_path, java_uri, path: str) -> str | None:
    """The canonical form of a path by Hadoop's `Path(URI)`; None if Java does not parse the text as a URI."""
    try:
        uri = hadoop_path(java_uri(path)).toUri()
    except Py4JJavaError:
        return None
    scheme, authority, name = uri.getScheme(), uri.getAuthority(), uri.getPath()
    if authority is None:
        return name if scheme in (None, "file") else f"{scheme}:{name}"
    return f"{scheme}://{authority}{name}" if scheme else f"//{authority}{name}"


@pytest.fixture(scope="module")
def canonical_paths(spark) -> dict[str, str]:
    """Sample paths with their canonical spelling by Hadoop."""
    # Each name in the path of a Java class is a request to the JVM.
    hadoop_path, java_uri = spark._jvm.org.apache.hadoop.fs.Path, spark._jvm.java.net.URI
    by_hadoop = {path: canonical_by_hadoop(hadoop_path, java_uri, path) for path in sample_paths()}
    return {path: canonical for path, canonical in by_hadoop.items() if canonical is not None}


def test_python_normalises_paths_as_hadoop_does(canonical_paths):
    assert len(canonical_paths) > 1000
    assert {path: canonical_path(path) for path in canonical_paths} == canonical_paths


def test_python_normalises_a_column_of_paths_as_hadoop_does(canonical_paths):
    paths = pa.chunked_array([list(canonical_paths)[:400], list(canonical_paths)[400:]], pa.string())
    files = pa.table({"path": paths, "deletionVector": pa.nulls(len(paths), DELETION_VECTOR)})
    assert key_column(files).to_pylist() == list(canonical_paths.values())


def test_spark_normalises_paths_as_hadoop_does(spark, canonical_paths):
    frame = spark.createDataFrame([(path,) for path in canonical_paths], "path STRING").coalesce(1)
    rows = frame.select("path", canonical_column(F.col("path")).alias("canonical")).collect()
    assert {row["path"]: row["canonical"] for row in rows} == canonical_paths
