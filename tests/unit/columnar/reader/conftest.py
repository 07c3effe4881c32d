"""Shared by the tests of the reader: a record of the row groups that were read."""

from __future__ import annotations

import pytest

from deltalite.columnar.reader import one_file


@pytest.fixture
def read_groups(monkeypatch):
    """The numbers of the row groups that were read, in order."""
    group_numbers = []
    read_batches = one_file._Source.batches

    def record_groups(self, adjacent_groups):
        group_numbers.extend(adjacent_groups.groups)
        return read_batches(self, adjacent_groups)

    monkeypatch.setattr(one_file._Source, "batches", record_groups)
    return group_numbers
