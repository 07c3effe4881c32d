"""Whether the folder of one address contains that of another."""

from __future__ import annotations

import pytest

from deltalite.storage.locations import contain_one_another


@pytest.mark.parametrize(
    ("address", "other", "expected"),
    [
        ("/lake/a", "/lake/a", True),
        ("/lake/a", "/lake/a/b/", True),
        ("/lake/ab", "/lake/a", False),
        ("s3://bucket/a", "s3://bucket/a/b", True),
        ("s3://bucket/a", "/bucket/a", False),
    ],
)
def test_a_folder_contains_itself_and_its_folders(address, other, expected):
    assert contain_one_another(address, other) is contain_one_another(other, address) is expected


def test_a_link_and_its_target_contain_one_another(tmp_path):
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table")
    assert contain_one_another(str(tmp_path / "link"), str(tmp_path / "table"))
    assert contain_one_another(str(tmp_path / "link" / "new"), str(tmp_path / "table"))
    assert not contain_one_another(str(tmp_path / "link"), str(tmp_path / "other"))
