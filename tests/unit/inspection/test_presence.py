"""The check for missing files lists folders or asks for each file, with the same result and the fewest requests."""

from __future__ import annotations

import pytest

from deltalite.errors import StorageError
from deltalite.inspection.presence import Absent, Presence, requests_per_file_are_as_cheap
from deltalite.storage.local import LocalLogStore
from tests.unit.builders import new_store

ELSEWHERE = "s3://elsewhere/a.parquet"
BOTH_LOOKUPS = pytest.mark.parametrize("lookup", [Presence.sizes, Presence.sizes_by_request])


@BOTH_LOOKUPS
def test_a_file_exists_with_its_size_or_is_missing_or_unknown(lookup, tmp_path):
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a b").write_bytes(b"123")
    (tmp_path / "c").write_bytes(b"")
    outside = tmp_path / "outside"
    outside.write_bytes(b"12")
    presence = Presence(LocalLogStore(str(tmp_path)))
    names = ["day=1/a b", "c", "day=1/none", "day=2/none", "c/none", str(outside), ELSEWHERE]
    assert lookup(presence, names) == [3, 0, *[Absent.MISSING] * 3, 2, Absent.UNKNOWN]
    assert presence.inaccessible_folders == ["s3://elsewhere"]


@BOTH_LOOKUPS
def test_a_storage_failure_raises_an_error(lookup):
    store = new_store()

    def fail(_operation, _name):
        raise StorageError("No answer.", remedy="Wait.")

    store.before = fail
    with pytest.raises(StorageError, match="No answer"):
        lookup(Presence(store), ["a"])


def test_the_error_names_a_file_that_cannot_be_checked(monkeypatch):
    store = new_store()
    monkeypatch.setattr(type(store), "open", lambda *_: (_ for _ in ()).throw(OSError("I/O error")))
    with pytest.raises(StorageError, match="The size of a/b in memory://table cannot be read: I/O error"):
        Presence(store).sizes_by_request(["a/b"])


@pytest.mark.parametrize(
    ("names", "all_files", "by_name"),
    [
        (["a"], 1, True),
        (["a", "b"], 2, False),
        (["p=1/a", "p=2/b"], 2, True),
        ([f"{number}" for number in range(1_001)], 1_000_000, True),
        ([f"{number}" for number in range(1_002)], 1_000_000, False),
    ],
)
def test_files_are_checked_by_name_if_listing_takes_as_many_requests(names, all_files, by_name):
    assert requests_per_file_are_as_cheap(names, all_files) == by_name
