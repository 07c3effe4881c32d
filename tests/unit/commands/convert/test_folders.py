"""The names of folders give the partition values of the files in them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from deltalite import DeltaTable
from deltalite.errors import InvalidRequestError
from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.support.tables import actions_of
from tests.unit.commands.convert.converting import convert_folder, rows, rows_by_delta_rs, stats_by_path, write_parquet


def test_folders_give_partition_values_of_the_requested_types(folder):
    write_parquet(folder, "day=2026-01-01/n=7/a.parquet", {"id": [1]})
    write_parquet(folder, "day=2026-01-02/n=007/b.parquet", {"id": [2]})
    write_parquet(folder, "day=__HIVE_DEFAULT_PARTITION__/n=-1/c.parquet", {"id": [3]})
    write_parquet(folder, "Day=2026-01-03/n=/d.parquet", {"id": [4]})
    convert_folder(folder, partition_schema="day DATE, `n` INT")
    expected = [(1, date(2026, 1, 1), 7), (2, date(2026, 1, 2), 7), (3, None, -1), (4, date(2026, 1, 3), None)]
    assert rows(folder, "id", "day", "n") == expected
    assert sorted(rows_by_delta_rs(folder, "id", "day", "n")) == expected
    values = {add["path"]: add["partitionValues"] for add in actions_of(folder, 0)["add"]}
    assert values["day=2026-01-02/n=007/b.parquet"] == {"day": "2026-01-02", "n": "7"}, (
        "the log must have the canonical text of the value"
    )
    assert DeltaTable(str(folder)).metadata.partition_columns == ("day", "n")
    assert verify(LocalLogStore(str(folder))).findings == ()


def test_folder_names_are_unescaped_once_and_escaped_in_the_log(folder):
    write_parquet(folder, "p=a%2Fb%25 c/é.parquet", {"id": [1]})
    write_parquet(folder, "p=%C3%A9=1/f.parquet", {"id": [2]})
    write_parquet(folder, "_q=3/f.parquet", {"id": [3]})
    with pytest.raises(InvalidRequestError, match=r"partition_schema has the columns \(p\), but the folders of _q=3"):
        convert_folder(folder, partition_schema="p STRING")
    (folder / "_q=3" / "f.parquet").unlink()
    (folder / "_q=3").rmdir()
    convert_folder(folder, partition_schema="p STRING")
    assert rows(folder, "id", "p") == rows_by_delta_rs(folder, "id", "p") == [(1, "a/b% c"), (2, "é=1")]


@pytest.mark.parametrize(
    ("kind", "text", "value", "in_log"),
    [
        ("TIMESTAMP", "2026-01-01 10%3A00%3A00", datetime(2026, 1, 1, 10, tzinfo=UTC), "2026-01-01T10:00:00.000000Z"),
        ("TIMESTAMP_NTZ", "2026-01-01 10%3A00%3A00", datetime(2026, 1, 1, 10), "2026-01-01 10:00:00"),  # noqa: DTZ001
        (
            "TIMESTAMP_NTZ",
            "2026-01-01T10%3A00%3A00.5",
            datetime(2026, 1, 1, 10, 0, 0, 500_000),  # noqa: DTZ001
            "2026-01-01 10:00:00.500000",
        ),
        ("DECIMAL(5, 2)", "1.5", Decimal("1.50"), "1.50"),
        ("BOOLEAN", "TRUE", True, "true"),
        ("DOUBLE", "-1e3", -1000.0, "-1e3"),
        ("tinyint", "-128", -128, "-128"),
    ],
)
def test_values_of_many_types_are_read_from_folders_and_get_the_spelling_of_the_log(folder, kind, text, value, in_log):
    write_parquet(folder, f"p={text}/a.parquet", {"id": [1]})
    convert_folder(folder, partition_schema=f"p {kind}")
    assert rows(folder, "p") == rows_by_delta_rs(folder, "p") == [(value,)]
    assert actions_of(folder, 0)["add"][0]["partitionValues"] == {"p": in_log}


def test_a_partition_column_of_the_folders_takes_precedence_over_a_column_of_the_files(folder):
    write_parquet(folder, "p=1/a.parquet", {"P": ["x"], "id": [1]})
    convert_folder(folder, partition_schema="p INT")
    assert DeltaTable(str(folder)).schema.names == ["p", "id"]
    assert rows(folder, "p", "id") == [(1, 1)]
    assert stats_by_path(folder)["p=1/a.parquet"]["minValues"] == {"id": 1}
