"""What crash trials share: the process that does what is to be killed, one for each file of tests."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import CrashSite


@pytest.fixture(scope="module")
def site():
    """Runs what needs no Spark."""
    site = CrashSite()
    yield site
    site.close()


@pytest.fixture(scope="module")
def spark_site(spark):
    """Runs what needs Spark, which is that of the tests."""
    site = CrashSite(spark)
    yield site
    site.close()
