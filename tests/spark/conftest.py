"""Shared fixtures of the tests on Spark."""

from __future__ import annotations

import pytest


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
