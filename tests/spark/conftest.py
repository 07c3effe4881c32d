"""Shared fixtures of the tests on Spark."""

from __future__ import annotations

import pytest

ONE_TASK = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}


@pytest.fixture(scope="module")
def one_task(spark):
    """Spark with one task a stage and no plans that change on the way, for data of a few rows."""
    from deltalite.spark.runtime.session import settings

    with settings(spark, ONE_TASK):
        yield


@pytest.fixture(params=["native", "public"])
def way(request, monkeypatch):
    """Both ways to read: the second by a Spark whose internals have changed."""
    from deltalite.spark.scan import frame as scan
    from deltalite.spark.scan.native_relation import NativeRelationError

    def changed(*_arguments, **_options):
        raise NativeRelationError("changed")

    def only_native(*_arguments, **_options):
        raise AssertionError("the native relation was not used")

    if request.param == "public":
        monkeypatch.setattr(scan, "native_relation", changed)
    else:
        monkeypatch.setattr(scan, "public_relation", only_native)
    return request.param
