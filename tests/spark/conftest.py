"""Shared fixtures of the tests on Spark."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["native", "public"])
def relation_kind(request, monkeypatch):
    """The kind of relation through which the test reads: Spark's internals, or its public API as the fallback."""
    from deltalite.spark.scan import relation_files
    from deltalite.spark.scan.native_relation import NativeRelationError

    def raise_native_relation_error(*_arguments, **_options):
        raise NativeRelationError("the internals of Spark have changed")

    def fail_test(*_arguments, **_options):
        raise AssertionError("the library did not use the native relation")

    if request.param == "public":
        monkeypatch.setattr(relation_files, "native_relation", raise_native_relation_error)
    else:
        monkeypatch.setattr(relation_files, "public_relation", fail_test)
    return request.param
