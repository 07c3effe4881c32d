"""The partition columns of source files follow from their folders, with the rules of Spark."""

from __future__ import annotations

import pytest

from deltalite.protocol.partition_folders import PartitionFolders, group_by_partition_folders, partition_folders


@pytest.mark.parametrize(
    ("folder", "names", "base"),
    [
        ("", (), ""),
        ("2026/03", (), ""),
        ("day=1", ("day",), ""),
        ("year=2026/Month=3", ("year", "Month"), ""),
        ("shop/day=1", ("day",), "shop"),
        ("day=1/part", ("day",), ""),
        ("region=x/part/day=1", ("day",), "region=x/part"),
        ("a%20b=1%2F2", ("a b",), ""),
        ("day=", (), ""),
        ("=1", (), ""),
        ("day=/hour=1", ("hour",), "day="),
        ("note a=b=c", ("note a",), ""),
    ],
)
def test_the_columns_are_the_names_of_the_last_partition_folders(folder, names, base):
    assert partition_folders(folder) == PartitionFolders(names=names, base=base)


@pytest.mark.parametrize("root", ["/lake/landing", "s3://bucket/", "/lake/x=1"])
def test_each_file_is_in_the_group_of_its_columns(root):
    prefix = root.rstrip("/")
    plain, by_day, by_hour = PartitionFolders(), PartitionFolders(names=("day",)), PartitionFolders(names=("hour",))
    groups = {
        plain: ["a.csv", "sub/b.csv", "k=v.csv"],
        by_day: ["day=1/c.csv", "day=2/d.csv"],
        by_hour: ["hour=3/e.csv"],
        PartitionFolders(names=("day",), base="sub"): ["sub/day=1/f.csv"],
    }
    expected = {group: [f"{prefix}/{name}" for name in names] for group, names in groups.items()}
    addresses = [address for group in expected.values() for address in group]
    assert group_by_partition_folders(root, addresses) == expected
    assert by_day.lower_names == {"day"}
    assert plain.lower_names == frozenset()
