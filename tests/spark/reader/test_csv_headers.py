"""Options of CSV sources that Spark does not accept are rejected before files are read."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import Source

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "options",
    [
        {"quote": "''"},
        {"escape": "ab"},
        {"comment": "--"},
        {"charToEscapeQuoteEscaping": "ab"},
        {"quote": "\N{GRINNING FACE}"},
        {"sep": ""},
        {"sep": "\\"},
        {"sep": r"|\|"},
        {"lineSep": ""},
        {"lineSep": "|||"},
    ],
)
def test_options_that_spark_does_not_accept_are_rejected_before_files_are_read(spark, tmp_path, options):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Exception):  # noqa: B017  Spark's errors have no common class
        spark.read.options(header="true", **options).csv(str(tmp_path)).collect()
    with pytest.raises(InvalidRequestError):
        Source(format="csv", path=str(tmp_path), options=options)
