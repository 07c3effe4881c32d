"""One session of delta-spark for all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.delta_spark import DeltaSpark, skip_or_fail_if_missing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """The session of delta-spark, which runs SQL statements."""
    skip_or_fail_if_missing()
    session = DeltaSpark(tmp_path_factory.mktemp("delta-spark"))
    yield session
    session.stop()
