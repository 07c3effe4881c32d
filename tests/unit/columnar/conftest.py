"""Shared by the tests of this folder: a folder of data files."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)
