"""Properties files are written as Java reads them, and read as Java writes them.

`tests/spark/runtime/test_properties_files.py` compares the results with those of Java.
"""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from airflow_provider_deltalite.properties_files import parse_properties, properties_text
from tests.support.fuzzing import examples


@pytest.mark.parametrize(
    ("text", "property_text"),
    [
        ("plain", "plain"),
        ("a\\b", "a\\\\b"),
        ("two\nlines\tand tabs", "two\\nlines\\tand tabs"),
        (" begins with a space", "\\ begins with a space"),
        ("a=b:c#d!", "a=b:c#d!"),
    ],
)
def test_values_are_written_as_java_reads_them(text, property_text):
    assert properties_text({"name": text}) == f"name={property_text}\n"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("# note\n ! note\n\n  a.b  c d \n", {"a.b": "c d "}),
        ("a=b=c\nd:e\nf\n", {"a": "b=c", "d": "e", "f": ""}),
        ("a = b \\\n   c\\\\\nd e", {"a": "b c\\", "d": "e"}),
        ("a\\=\\:\\ b \\t\\u00e9\\q", {"a=: b": "\té" + "q"}),
        ("a 1\ra 2\r\nb \\ud83d\\ude00", {"a": "2", "b": "\U0001f600"}),
        ("a \\", {"a": ""}),
        ("\\", {"": ""}),
    ],
)
def test_files_are_read_as_java_reads_them(text, settings):
    assert parse_properties(text) == settings


@seed(1)
@examples(300)
@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_every_setting_that_is_written_is_read_again(settings):
    assert parse_properties(properties_text(settings)) == settings
