"""A pattern selects folders on any storage, without following links, hidden folders or tables."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests.source_paths import has_pattern, split_address
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.opening import listed_tree, open_store
from deltalite.storage.patterns import matching_folders


@pytest.fixture
def lake(tmp_path):
    """Three tables, one of them with a table inside, and folders that are not tables."""
    for name in ("sales/orders", "sales/items", "hr/people"):
        (tmp_path / name / "_delta_log").mkdir(parents=True)
    for name in ("sales/orders/day=1/_delta_log", "sales/_staging", "sales/.trash", "landing"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sales" / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "sales")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ["hr", "landing", "sales"]),
        ("sales/*", ["sales/items", "sales/orders"]),
        ("sales/*/", ["sales/items", "sales/orders"]),
        ("*/[op]*", ["hr/people", "sales/orders"]),
        ("sales/?tems", ["sales/items"]),
        ("*/orders", ["sales/orders"]),
        ("sales/_*", ["sales/_staging"]),
        ("**", ["hr/people", "sales/items", "sales/orders"]),
        ("**/orders", ["sales/orders"]),
        ("**/day=1", []),
        ("**/*", ["hr", "hr/people", "landing", "sales", "sales/items", "sales/orders"]),
        ("nothing/*", []),
        ("sales/{orders,nothing,it*}", ["sales/items", "sales/nothing", "sales/orders"]),
        ("{hr,sales}/[!o]*", ["hr/people", "sales/items"]),
    ],
)
def test_wildcards_match_parts_of_addresses(lake, pattern, expected):
    assert matching_folders(f"{lake}/{pattern}", LocalTree) == [f"{lake}/{name}" for name in expected]


def test_an_address_without_a_wildcard_is_its_only_match():
    assert matching_folders("/lake/orders", LocalTree) == ["/lake/orders"]
    assert not has_pattern("/lake/orders")


def test_the_listing_begins_at_the_last_folder_before_the_wildcards():
    assert split_address("s3://lake/a/b*/c")[0] == "s3://lake/a"
    assert split_address("/lake/*")[0] == "/lake"
    assert split_address("/*")[0] == "/"
    assert split_address("/lake/orders")[0] == "/lake/orders"
    for pattern in ("s3://*/orders", "s?://lake/x"):
        with pytest.raises(InvalidRequestError, match="wildcard in its scheme, bucket or host"):
            split_address(pattern)


def test_a_pattern_matches_on_object_stores_too():
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("orders", "items"):
        memory.pipe(f"/patterns/lake/{name}/_delta_log/{0:020}.json", b"{}")

    def open_tree(address):
        return listed_tree(open_store(address, filesystem=memory))

    try:
        assert matching_folders("memory://patterns/lake/*", open_tree) == [
            "memory://patterns/lake/items",
            "memory://patterns/lake/orders",
        ]
    finally:
        memory.rm("/patterns", recursive=True)
