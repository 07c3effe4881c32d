"""The names in `_delta_log/`: the names that this library creates are parsed, and other names are ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.protocol.file_names import (
    LogFileKind,
    LogFileName,
    checkpoint_name,
    checksum_name,
    commit_name,
    compaction_name,
    first_name_of,
    parse_log_name,
    sidecar_name,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize(
    ("base_name", "kind", "version", "other_fields"),
    [
        ("00000000000000000010.json", LogFileKind.COMMIT, 10, {}),
        ("00000000000000000010.crc", LogFileKind.CHECKSUM, 10, {}),
        ("00000000000000000010.checkpoint.parquet", LogFileKind.CLASSIC_CHECKPOINT, 10, {}),
        (
            "00000000000000000010.checkpoint.0000000002.0000000003.parquet",
            LogFileKind.MULTI_PART_CHECKPOINT,
            10,
            {"part": 2, "parts": 3},
        ),
        (f"00000000000000000010.checkpoint.{UUID}.parquet", LogFileKind.UUID_CHECKPOINT, 10, {}),
        (f"00000000000000000010.checkpoint.{UUID}.json", LogFileKind.UUID_CHECKPOINT, 10, {}),
        ("00000000000000000004.00000000000000000006.compacted.json", LogFileKind.COMPACTION, 4, {"last_version": 6}),
    ],
)
def test_every_kind_of_log_file_is_known_by_its_name(base_name, kind, version, other_fields):
    name = f"_delta_log/{base_name}"
    assert parse_log_name(name) == LogFileName(name=name, kind=kind, version=version, **other_fields)


@pytest.mark.parametrize(
    "name",
    [
        "_delta_log/_last_checkpoint",
        "_delta_log/_last_vacuum_info",
        "_delta_log/10.json",
        "_delta_log/000000000000000000010.json",
        "_delta_log/00000000000000000010.json.tmp",
        "_delta_log/.00000000000000000010.json.1b2c.tmp",
        "_delta_log/00000000000000000010.json~",
        "_delta_log/00000000000000000010.checkpoint.0000000001.parquet",
        "_delta_log/00000000000000000010.checkpoint.parquet.crc",
        "_delta_log/00000000000000000010.json\n",
        f"_delta_log/_staged_commits/00000000000000000010.{UUID}.json",
        f"_delta_log/00000000000000000010.{UUID}.json",
        "_delta_log/_sidecars/00000000000000000010.json",
        "00000000000000000010.json",
        "elsewhere/00000000000000000010.json",
        "",
    ],
)
def test_any_other_name_is_not_a_log_file(name):
    assert parse_log_name(name) is None


@given(version=st.integers(0, 10**20 - 1))
def test_created_names_parse_to_their_kind(version):
    for name, kind in (
        (commit_name(version), LogFileKind.COMMIT),
        (checkpoint_name(version), LogFileKind.CLASSIC_CHECKPOINT),
        (checksum_name(version), LogFileKind.CHECKSUM),
        (compaction_name(version, 10**20 - 1), LogFileKind.COMPACTION),
    ):
        parsed = parse_log_name(name)
        assert parsed is not None and (parsed.kind, parsed.version) == (kind, version)


@given(low=st.integers(0, 10**20 - 2), step=st.integers(1, 1000))
def test_the_order_of_names_is_the_order_of_versions(low, step):
    high = min(low + step, 10**20 - 1)
    names = sorted([commit_name(low), checkpoint_name(low)])
    assert first_name_of(low) <= names[0] and names[-1] < first_name_of(high) <= checkpoint_name(high)


@pytest.mark.parametrize(
    "path",
    [
        "a b.parquet",
        "a%20b.parquet",
        "_delta_log/_sidecars/a%20b.parquet",
        "file:/elsewhere/_delta_log/_sidecars/a%20b.parquet",
        "s3://lake/t/_delta_log/_sidecars/a%20b.parquet",
        "..%2F..%2Fa%20b.parquet",
    ],
)
def test_a_sidecar_is_read_from_the_folder_of_the_table_with_any_path(path):
    assert sidecar_name(path) == "_delta_log/_sidecars/a b.parquet"
