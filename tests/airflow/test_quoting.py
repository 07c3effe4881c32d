"""Template filters turn untrusted values into literals. tests/spark/reader/test_quoting.py lets Spark parse them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from airflow.sdk import DAG
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaWriteOperator
from airflow_provider_deltalite.quoting import path_part, sql_identifier, sql_literal
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from deltalite.errors import InvalidRequestError
from tests.airflow.rendering import TEXT_AND_NATIVE, rendered_task

EAST = timezone(timedelta(hours=1))
HARMLESS_LITERAL = re.compile(r"'[^'\"\\$`{}\x00-\x1f]*'|CAST\(X'(?:[0-9a-f]{2})*' AS STRING\)", re.DOTALL)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_character_of_a_text_can_end_its_literal_or_be_replaced_by_spark(text):
    assert HARMLESS_LITERAL.fullmatch(sql_literal(text))


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        ("it's", "CAST(X'69742773' AS STRING)"),
        ("${env:SECRET}", "CAST(X'247b656e763a5345435245547d' AS STRING)"),
        ("Zürich", "'Zürich'"),
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, "(-7)"),
        (0.1, "0.1D"),
        (-0.5, "(-0.5D)"),
        (np.float64(0.1), "0.1D"),
        (float("nan"), "CAST('nan' AS DOUBLE)"),
        (Decimal("12.30"), "12.30BD"),
        (Decimal("-12.30"), "(-12.30BD)"),
        (b"\x00'", "X'0027'"),
        (date(2026, 1, 31), "DATE'2026-01-31'"),
        (datetime(2026, 1, 31, 1, 2, 3, tzinfo=EAST), "TIMESTAMP'2026-01-31 00:02:03Z'"),
        (datetime(2026, 1, 31, 1, 2, 3), "TIMESTAMP_NTZ'2026-01-31 01:02:03'"),  # noqa: DTZ001  tests a local time
        (["a", 1], "('a', 1)"),
    ],
)
def test_each_type_of_value_becomes_a_literal_of_its_type(value, sql):
    assert sql_literal(value) == sql


@pytest.mark.parametrize(
    "value", [[], {"a": 1}, object(), "\ud800", Decimal("NaN"), datetime.min.replace(tzinfo=EAST), pd.NaT]
)
def test_a_value_without_a_safe_literal_is_rejected(value):
    with pytest.raises(InvalidRequestError, match="cannot be put into a template"):
        sql_literal(value)


def test_an_identifier_stays_one_identifier():
    assert sql_identifier("a.b`; DROP") == "`a.b``; DROP`"
    for name in ("", 7, "a\nb"):
        with pytest.raises(InvalidRequestError, match="a name is a text without control characters"):
            sql_identifier(name)
    with pytest.raises(InvalidRequestError, match=r"Spark would replace the text after the '\$'"):
        sql_identifier("${x}")


@pytest.mark.parametrize("name", ["DE", "day=2026-01-31", "Zürich 1", 7, date(2026, 1, 31)])
def test_a_part_of_an_address_may_be_any_plain_name(name):
    assert path_part(name) == str(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "..", ".", "../x", "a/b", "a\\b", "~root", "_delta_log", "%2e%2e", "*", "x@v3", "a\n", None, "a:b"],
)
def test_a_part_of_an_address_that_is_empty_special_or_leads_to_another_folder_is_rejected(name):
    with pytest.raises(InvalidRequestError, match="cannot be put into a template"):
        path_part(name)


DAG_RUN_CONF = {"customer": "x' OR '1'='1", "country": "../secrets"}


@TEXT_AND_NATIVE
def test_templates_of_operators_have_the_filters(native):
    task = rendered_task(
        DeltaDeleteOperator,
        native=native,
        condition="customer = {{ conf.customer | sql_literal }}",
        rendered_with={"conf": DAG_RUN_CONF},
    )
    assert task.condition == "customer = CAST(X'7827204f52202731273d2731' AS STRING)"
    with pytest.raises(InvalidRequestError, match=r"\.\./secrets"):
        rendered_task(
            DeltaDeleteOperator,
            native=native,
            table="/lake/{{ conf.country | path_part }}",
            condition="a",
            rendered_with={"conf": DAG_RUN_CONF},
        )


def test_templates_of_the_sensor_have_the_filters():
    sensor = DeltaVersionSensor(task_id="wait", table="/lake/{{ country | path_part }}")
    sensor.render_template_fields({"country": "DE"})
    assert sensor.table == "/lake/DE"


def test_templates_of_a_mapped_task_have_the_filters():
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        mapped = DeltaDeleteOperator.partial(task_id="t", table="/lake").expand(condition=["a = {{ b | sql_literal }}"])
    unmapped = mapped.unmap({"condition": "a = {{ b | sql_literal }}"})
    unmapped.render_template_fields({"b": "'"})
    assert unmapped.condition == "a = CAST(X'27' AS STRING)"


@TEXT_AND_NATIVE
def test_query_parameters_reach_spark_as_values(native):
    task = rendered_task(
        DeltaWriteOperator,
        native=native,
        source={"format": "csv", "path": "/in"},
        query="SELECT * FROM source WHERE customer = :customer AND day = :day AND n = :n",
        query_params={"customer": "{{ conf.customer }}", "day": date(2026, 1, 31), "n": 7},
        rendered_with={"conf": DAG_RUN_CONF},
    )
    request = task._request()
    assert request.query_params == {"customer": DAG_RUN_CONF["customer"], "day": "2026-01-31", "n": 7}
    assert type(request).from_json(request.to_json()) == request


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"query": None, "query_params": {"a": 1}}, "no query"),
        ({"query": "SELECT :a", "query_params": {"a b": 1}}, "Invalid name 'a b' in query_params"),
        ({"query": "SELECT :a", "query_params": {"a": [1]}}, "is a list"),
    ],
)
def test_an_invalid_query_parameter_is_rejected(parameters, message):
    with pytest.raises(InvalidRequestError, match=message):
        rendered_task(DeltaWriteOperator, source={"format": "csv", "path": "/in"}, **parameters)
