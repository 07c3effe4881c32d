"""Columns by name: a request may spell them in any case."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.spark.columns.names import fields_named

SCHEMA = StructType(tuple(StructField(name, PrimitiveType("long"), nullable=True) for name in ("Id", "day")))


def test_a_request_names_columns_in_any_case_and_a_missing_column_is_an_error_that_lists_all():
    options = {"problem": lambda name: f"keys names {name!r}.", "remedy": "The columns are"}
    assert [field.name for field in fields_named(SCHEMA, ("DAY", "id"), **options)] == ["day", "Id"]
    assert fields_named(SCHEMA, (), **options) == ()
    with pytest.raises(InvalidRequestError) as caught:
        fields_named(SCHEMA, ("id", "x"), **options)
    assert (caught.value.problem, caught.value.remedy) == ("keys names 'x'.", "The columns are Id, day.")
