"""Fixtures of the crash trials: processes that fork the programs to kill. Each test file has its own process."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import CrashSite


@pytest.fixture(scope="module")
def site(pytestconfig):
    """A crash site for programs that need no Spark."""
    site = CrashSite(is_campaign=pytestconfig.getoption("--campaign"))
    yield site
    site.close()


@pytest.fixture(scope="module")
def spark_site(spark, pytestconfig):
    """A crash site for programs that use the Spark session of the tests."""
    site = CrashSite(spark, is_campaign=pytestconfig.getoption("--campaign"))
    yield site
    site.close()
