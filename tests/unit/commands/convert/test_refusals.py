"""An unsuitable folder or an invalid request is rejected, and the folder stays unchanged."""

from __future__ import annotations

import pytest

from deltalite.commands.convert import convert
from deltalite.errors import (
    InvalidRequestError,
    InvalidTableAddressError,
    SourceError,
    UnsupportedFeatureError,
)
from deltalite.requests import ConvertRequest
from tests.unit.commands.convert.converting import assert_untouched, convert_folder, write_parquet


def create_empty_folder(folder):
    folder.mkdir()


def write_only_hidden_files(folder):
    write_parquet(folder, "_a/b.parquet", {"id": [1]})


def write_a_file_instead_of_a_folder(folder):
    folder.write_bytes(b"x")


def write_another_format(folder):
    write_parquet(folder, "a.parquet", {"id": [1]})
    (folder / "notes.csv").write_text("1,2")


def write_truncated_file(folder):
    file = write_parquet(folder, "a.parquet", {"id": [1]})
    file.write_bytes(file.read_bytes()[:-5])


def write_inner_table(folder):
    write_parquet(folder, "sub/_delta_log/x", {"id": [1]})


def write_stream_output(folder):
    write_parquet(folder, "a.parquet", {"id": [1]})
    (folder / "_spark_metadata").mkdir()


def write_iceberg_table(folder):
    write_parquet(folder, "data/a.parquet", {"id": [1]})
    (folder / "metadata").mkdir()
    (folder / "metadata" / "v1.metadata.json").write_text("{}")


def write_link_to_a_file(folder):
    file = write_parquet(folder, "a.parquet", {"id": [1]})
    (folder / "b.parquet").symlink_to(file)


def write_link_to_a_folder(folder):
    write_parquet(folder, "a/a.parquet", {"id": [1]})
    (folder / "b").symlink_to(folder / "a")


@pytest.mark.parametrize(
    ("create_folder", "problem"),
    [
        (None, "holds no Parquet files"),
        (create_empty_folder, "holds no Parquet files"),
        (write_only_hidden_files, "holds no Parquet files"),
        (write_a_file_instead_of_a_folder, "holds no Parquet files"),
        (write_another_format, "'notes.csv'.* cannot be read as Parquet"),
        (write_truncated_file, "'a.parquet'.* cannot be read as Parquet"),
        (write_inner_table, "sub is another Delta table"),
        (write_stream_output, "the output of a Spark stream"),
        (write_iceberg_table, "an Iceberg table"),
        (write_link_to_a_file, "holds a link or a special file"),
        (write_link_to_a_folder, "holds a link or a special file"),
    ],
)
def test_an_unsuitable_folder_is_rejected_and_not_changed(folder, create_folder, problem):
    if create_folder is not None:
        create_folder(folder)
    with pytest.raises(SourceError, match=problem):
        convert_folder(folder)
    assert_untouched(folder)


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        (["day=1/a"], {}, r"partition_schema is not set.*partition_schema='day STRING'"),
        (["day=1/a", "b"], {"partition_schema": "day INT"}, r"the folders of b have \(\)"),
        (["day=1/x/a"], {"partition_schema": "day INT"}, r"have \(day, no column\)"),
        (["a=1/b=2/f"], {"partition_schema": "b INT, a INT"}, r"have \(a, b\)"),
        (["day=x/a"], {"partition_schema": "day INT"}, "value 'x', which is not a valid int"),
        (["day=300/a"], {"partition_schema": "day TINYINT"}, "value '300', which is not a valid tinyint"),
        (["day=2026-13-01/a"], {"partition_schema": "day DATE"}, "which is not a valid date"),
        (
            ["at=2026-01-01 10%3A00%3A00Z/a"],
            {"partition_schema": "at TIMESTAMP_NTZ"},
            "which is not a valid timestamp_ntz",
        ),
        (["day=%FF/a"], {"partition_schema": "day STRING"}, "escape that is not UTF-8"),
        (["day=1/a"], {"partition_schema": "day"}, "partition_schema is 'day'"),
        (["day=1/a"], {"partition_schema": "day INT, Day DATE"}, "names 'Day' twice"),
        (["day=1/a"], {"partition_schema": "day ARRAY<INT>"}, "partition_schema is"),
        (["day=1/a"], {"partition_schema": "day BINARY"}, "'BINARY', which cannot partition"),
        (["day=1/a"], {"partition_schema": "day DECIMAL(5, 6)"}, "cannot partition"),
        (["day=1/a"], {"partition_schema": "day INT NOT NULL"}, "partition_schema is"),
        (["id=1/a"], {"partition_schema": "id INT"}, "names every column"),
        (["a"], {"properties": {"delta.nonsense": "1"}}, "Unknown table property delta.nonsense"),
        (["a"], {"properties": {"delta.appendOnly": "maybe"}}, "appendOnly"),
        (["a"], {"properties": {"delta.columnMapping.mode": "id"}}, "can only change from 'none' to 'name'"),
        (["a"], {"properties": {"delta.dataSkippingStatsColumns": "missing"}}, "names the column 'missing'"),
        (["a"], {"table": "t@v3"}, "names a version"),
    ],
)
def test_an_invalid_request_is_rejected_and_the_folder_is_not_changed(folder, names, options, problem):
    for name in names:
        write_parquet(folder, name, {"id": [1]})
    with pytest.raises(InvalidRequestError, match=problem):
        convert(None, ConvertRequest(**{"table": str(folder), **options}))
    assert_untouched(folder)


def test_unwritable_features_templates_and_row_constraints_are_rejected(folder):
    write_parquet(folder, "a", {"id": [1]})
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        convert_folder(folder, properties={"delta.feature.catalogManaged": "supported"})
    with pytest.raises(InvalidTableAddressError):
        convert_folder("{{ folder }}")
    with pytest.raises(InvalidRequestError, match="a constraint on rows"):
        convert_folder(folder, properties={"delta.constraints.positive": "id > 0"})
