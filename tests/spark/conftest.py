"""What tests of reading share."""

from __future__ import annotations

import pytest

# Compiling generated code takes seconds, where running it on a few rows takes milliseconds.
WITHOUT_GENERATED_CODE = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="module")
def interpreted(spark, pytestconfig):
    """Spark without generated code; in the campaign with it, as in production."""
    from deltalite.spark.session import settings

    with settings(spark, {} if pytestconfig.getoption("--campaign") else WITHOUT_GENERATED_CODE):
        yield


@pytest.fixture(params=["native", "public"])
def way(request, monkeypatch):
    """Both ways to read: the second by a Spark whose internals have changed."""
    from deltalite.spark import scan
    from deltalite.spark.native_relation import NativeRelationError

    def changed(*_arguments, **_options):
        raise NativeRelationError("changed")

    def only_native(*_arguments, **_options):
        raise AssertionError("the native relation was not used")

    if request.param == "public":
        monkeypatch.setattr(scan, "native_relation", changed)
    else:
        monkeypatch.setattr(scan, "public_relation", only_native)
    return request.param
