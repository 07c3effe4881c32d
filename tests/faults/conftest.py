"""What crash trials share: the process that does what is to be killed, one for each file of tests."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import CrashSite


@pytest.fixture(scope="module")
def site(pytestconfig):
    """Runs what needs no Spark."""
    site = CrashSite(is_campaign=pytestconfig.getoption("--campaign"))
    yield site
    site.close()


@pytest.fixture(scope="module")
def spark_site(spark, pytestconfig):
    """Runs what needs Spark, which is that of the tests."""
    site = CrashSite(spark, is_campaign=pytestconfig.getoption("--campaign"))
    yield site
    site.close()
