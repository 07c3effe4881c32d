"""The library looks up each Java class once, and PySpark does not look up the classes that the library remembers."""

from __future__ import annotations

import pytest
from pyspark.sql import functions

from deltalite.spark.runtime.java_classes import java_class, remember_classes

pytestmark = pytest.mark.spark


@pytest.fixture
def requested_names(spark, monkeypatch):
    """The names that py4j asks the JVM for during the test."""
    names = []
    client = spark.sparkContext._gateway._gateway_client
    send = client.send_command

    def send_command(command, *args, **options):
        kind, subject, *values = command.split("\n")
        if (kind, subject) == ("r", "u"):  # In py4j's protocol, this is a reflection command for an unknown member.
            names.append(values[0])
        return send(command, *args, **options)

    monkeypatch.setattr(client, "send_command", send_command)
    return names


def test_a_class_is_looked_up_once_by_its_complete_name(spark, requested_names):
    name = "java.util.StringJoiner"
    for _ in range(2):
        assert java_class(spark._jvm, name)(", ").length() == 0
    assert requested_names == [name]


def test_a_class_that_does_not_exist_raises_an_error_and_is_not_remembered(spark, requested_names):
    for _ in range(2):
        with pytest.raises(AttributeError, match=r"no Java class org\.example\.Missing"):
            java_class(spark._jvm, "org.example.Missing")
    assert requested_names == ["org.example.Missing"] * 2


def test_pyspark_does_not_look_up_the_remembered_classes(spark, requested_names):
    remember_classes(spark)
    requested_names.clear()
    functions.concat(functions.upper(functions.col("a")), functions.lit("b"))
    assert requested_names == []
