"""Spark reads tables of other engines: each version gives the expected rows, or an error of the library."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructType, VariantVal

import deltalite.spark as delta
from deltalite.errors import CorruptDataFileError, DeltaLiteError, TableError, UnsupportedFeatureError
from deltalite.spark.runtime.errors import reading_table
from tests.support.golden import assert_same_rows, expected_metadata, one_per_feature, table_names, unsupported_part

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

VARIANT = StructType().add("metadata", BinaryType()).add("value", BinaryType())


def rows_of_table(spark, golden, name, **version):
    """The rows of a golden table as Spark reads them, as an Arrow table."""
    path = str(golden / "tables" / name)
    with reading_table(path):
        frame = delta.read(spark, path, **version)
        return arrow_with_variants(frame) if '"variant"' in frame.schema.json() else frame.toArrow()


def arrow_with_variants(frame):
    """Convert a frame with variants to Arrow. PySpark's `toArrow` fails for a null variant."""
    return pa.Table.from_pylist([plain_value(row) for row in frame.collect()], arrow_schema(frame.schema))


def arrow_schema(struct):
    text = struct.json().replace('"variant"', json.dumps(VARIANT.jsonValue()))
    return to_arrow_schema(StructType.fromJson(json.loads(text)))


def plain_value(value):
    match value:
        case VariantVal():
            return {"metadata": bytes(value.metadata), "value": bytes(value.value)}
        case Row():
            return {name: plain_value(value[name]) for name in value.__fields__}
        case list():
            return [plain_value(item) for item in value]
        case dict():
            return [(plain_value(key), plain_value(item)) for key, item in value.items()]
        case _:
            return value


@pytest.mark.parametrize("name", one_per_feature("read", at_most=20))
def test_each_version_of_a_table_gives_the_expected_rows(spark, golden, name):
    expected = golden / "expected" / name
    try:
        latest_rows = rows_of_table(spark, golden, name)
    except UnsupportedFeatureError as error:
        if spark.version.startswith("4.0.") and "Parquet's variant type" in error.problem:
            return
        raise
    assert_same_rows(latest_rows, pq.read_table(expected / "data.parquet"))
    latest = expected_metadata(golden, name)["version"]
    for expected_file in sorted(expected.glob("versions/*.parquet")):
        if (version := int(expected_file.stem)) != latest:
            rows_read = rows_of_table(spark, golden, name, version_as_of=version)
            assert_same_rows(rows_read, pq.read_table(expected_file))


@pytest.mark.parametrize("name", table_names("must-error"))
def test_an_invalid_table_raises_a_table_error_and_gives_no_rows(spark, golden, name):
    with pytest.raises(TableError) as error_info:
        rows_of_table(spark, golden, name)
    assert error_info.value.remedy and not error_info.value.retryable


@pytest.mark.parametrize("name", table_names("must-refuse"))
def test_the_error_names_the_unsupported_protocol_feature(spark, golden, name):
    with pytest.raises(UnsupportedFeatureError) as error_info:
        rows_of_table(spark, golden, name)
    assert unsupported_part(golden, name) in error_info.value.problem


@pytest.mark.parametrize("name", table_names("log-only"))
def test_a_read_of_missing_data_files_is_an_error(spark, golden, name):
    if expected_metadata(golden, name)["num_files"]:
        with pytest.raises(CorruptDataFileError):
            rows_of_table(spark, golden, name)


@pytest.mark.parametrize("name", table_names("either", "read-count-only"))
def test_a_table_on_which_readers_differ_gives_the_expected_rows_or_an_error(spark, golden, name):
    try:
        rows = rows_of_table(spark, golden, name)
    except DeltaLiteError:
        return
    assert rows.num_rows == expected_metadata(golden, name)["num_rows"]
    data = golden / "expected" / name / "data.parquet"
    if data.is_file():
        assert_same_rows(rows, pq.read_table(data))
