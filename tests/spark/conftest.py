"""Shared fixtures of the tests on Spark."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def quick_plans(request, pytestconfig):
    """Give Spark one task for each stage, and switch adaptive plans off, except in the campaign.

    The tests of a module with this fixture use a few rows, and most of their time is for planning. With adaptive plans
    Spark optimizes the rest of a query after each of its stages. The campaign, the submitted jobs and the other modules
    use adaptive plans.
    """
    if not (pytestconfig.getoption("--campaign") or pytestconfig.getoption("--generated-code")):
        request.getfixturevalue("one_task")


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
