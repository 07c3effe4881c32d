"""An interval in a table property has the length that Spark gives it, or is rejected."""

from __future__ import annotations

import pytest

from deltalite.protocol.intervals import parse_interval_ms
from tests.unit.protocol.interval_spellings import SPELLINGS


@pytest.mark.parametrize(("text", "milliseconds"), [(t, ms) for t, ms in SPELLINGS.items() if ms is not None])
def test_an_interval_has_the_length_that_spark_computes(text, milliseconds):
    assert parse_interval_ms(text) == milliseconds


@pytest.mark.parametrize("text", [text for text, ms in SPELLINGS.items() if ms is None])
def test_an_invalid_interval_is_rejected(text):
    with pytest.raises(ValueError, match="not an interval"):
        parse_interval_ms(text)
