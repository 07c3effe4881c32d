"""The JVM initializes Scala's reflection while it starts Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deltalite.spark.runtime import scala_reflection
from deltalite.spark.runtime.scala_reflection import _initialize, initialize_scala_reflection

pytestmark = pytest.mark.spark


def test_scala_has_the_class_that_initializes_its_reflection(spark, monkeypatch):
    universes = []

    def record(jvm, name):
        package = java_class(jvm, name)
        return SimpleNamespace(universe=lambda: universes.append(package.universe().getClass().getName()))

    java_class = scala_reflection.java_class
    monkeypatch.setattr(scala_reflection, "java_class", record)
    initialize_scala_reflection().join(60)
    assert universes == ["scala.reflect.runtime.JavaUniverse"]


def test_a_jvm_without_scala_reflection_is_left_alone():
    _initialize(SimpleNamespace())
