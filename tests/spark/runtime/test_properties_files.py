"""The provider reads properties files as Java and Spark do, even hostile files."""

from __future__ import annotations

from hypothesis import given, seed
from hypothesis import strategies as st

from airflow_provider_deltalite.hooks._settings_file import read_properties_file
from airflow_provider_deltalite.properties_files import parse_properties, properties_text
from tests.support.fuzzing import examples

PARTS = ["\\", "\\u0041", "\n", "\r", "\t", "\f", " ", "=", ":", "#", "!", "a", "b.c", "é", "\U0001f600"]


@seed(1)
@examples(100)
@given(text=st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_a_file_has_the_settings_that_java_reads(spark, text):
    assert parse_properties(text) == java_settings(spark, text)


@seed(1)
@examples(30)
@given(settings=st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=3))
def test_java_reads_each_setting_that_the_provider_writes(spark, settings):
    assert java_settings(spark, properties_text(settings)) == settings


def java_settings(spark, text):
    """The settings that Java reads from a text."""
    java = spark._jvm.java
    properties = java.util.Properties()
    properties.load(java.io.StringReader(text))
    return {name: properties.getProperty(name) for name in properties.stringPropertyNames()}


@seed(1)
@examples(100)
@given(text=st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_a_settings_file_has_the_settings_that_spark_reads(spark, tmp_path_factory, text):
    file = tmp_path_factory.mktemp("settings") / "spark.conf"
    file.write_bytes(f"spark.a {text}\nspark.b\\u0020=\\n{text}".encode())
    utils = spark._jvm.org.apache.spark.util.Utils
    entries = utils.getPropertiesFromFile(str(file)).iterator()
    read_by_spark = {}
    while entries.hasNext():
        entry = entries.next()
        if entry._1().startswith("spark."):
            read_by_spark[entry._1()] = entry._2()
    assert read_properties_file(str(file)).settings == read_by_spark
