"""One session of delta-spark for all tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.delta_spark import DeltaSpark, skip_or_fail_if_missing
from tests.support.folder_servers import servers_of


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> DeltaSpark:
    """The session of delta-spark, which runs SQL statements."""
    skip_or_fail_if_missing()
    session = DeltaSpark(tmp_path_factory.mktemp("delta-spark"))
    servers_of(Path(__file__).parent, pytestconfig).callback(session.stop)
    return session
