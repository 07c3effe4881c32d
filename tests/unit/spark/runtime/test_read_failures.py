"""The message about an unreadable file names the file and the innermost reason."""

from __future__ import annotations

import pytest

from deltalite.spark.runtime.read_failures import has_bad_record, permanent_read_failure, read_failure

STACK = "\n\tat org.apache.spark.Task.run(Task.scala:1)\n\t... 12 more\n"
UNREAD = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a. b.csv.  SQLSTATE: KD001"
FOOTER = (
    "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file file:/in/x.orc. Could not read "
    "footer. Please ensure that the file is in either ORC or Parquet format.\nIf not, convert it. SQLSTATE: KD001"
)
RECORD = (
    "org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are detected "
    "in record parsing: [2,null].\nParse Mode: FAILFAST. To process them, set the option.  SQLSTATE: 22023"
)
JSON_FIELD = (
    "org.apache.spark.SparkRuntimeException: [CANNOT_PARSE_JSON_FIELD] Cannot parse the field name 'id' and the value "
    'x to target Spark data type "INT". SQLSTATE: 2203G'
)
ORC = "org.apache.orc.FileFormatException: Malformed ORC file file:/in/x.orc. Invalid postscript."
AWAIT = "org.apache.spark.SparkException: Exception thrown in awaitResult: "
FILE = "file:///in/a. b.csv"


def text_of(message, *causes):
    """Return an exception with its causes as Java prints them."""
    return f"o1.save.\n: org.apache.spark.SparkException: {message}{STACK}" + "".join(
        f"Caused by: {cause}{STACK}" for cause in causes
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (text_of(UNREAD, RECORD, "a.BadRecordException", 'java.lang.NumberFormatException: For input string: "abc"'),
         f'{FILE}: For input string: "abc", in the record [2,null].'),
        (text_of(UNREAD, RECORD, JSON_FIELD),
         f"{FILE}: {JSON_FIELD.partition('] ')[2].partition('. ')[0]}, in the record [2,null]."),
        (text_of(UNREAD, "java.io.EOFException: Unexpected end of input stream"),
         f"{FILE}: Unexpected end of input stream."),
        (text_of(UNREAD, "java.io.IOException: not a gzip file"), f"{FILE}: not a gzip file."),
        (text_of(UNREAD, "java.io.IOException: incorrect data check"), f"{FILE}: incorrect data check."),
        (text_of(UNREAD, "java.io.IOException: unexpected end of stream"), f"{FILE}: unexpected end of stream."),
        (text_of(AWAIT, FOOTER, ORC, AWAIT),
         "file:/in/x.orc: Malformed ORC file file:/in/x.orc. Invalid postscript."),
        (text_of(UNREAD.replace("NO_HINT", "PARQUET_COLUMN_DATA_TYPE_MISMATCH"), "a.B: c"),
         UNREAD.replace("NO_HINT", "PARQUET_COLUMN_DATA_TYPE_MISMATCH")),
        (text_of(f"{UNREAD} DATA_TYPE_MISMATCH"), f"{UNREAD} DATA_TYPE_MISMATCH"),
    ],
)  # fmt: skip
def test_the_problem_is_the_file_with_the_innermost_reason(text, problem):
    assert permanent_read_failure(text) == problem
    assert has_bad_record(text) == ("record" in problem)


@pytest.mark.parametrize("cause", ["SocketException: reset", "IOException: unexpected end of stream on http://s3/"])
def test_an_error_that_a_retry_may_solve_is_not_permanent(cause):
    text = text_of(UNREAD, f"java.net.{cause}")
    assert permanent_read_failure(text) is None
    assert read_failure(text) == f"{FILE}: {cause.partition(': ')[2]}."
    assert read_failure(text_of("the stage failed", cause)) is None


def test_a_long_reason_is_cut():
    assert len(read_failure(text_of(UNREAD, f"java.io.IOException: {'x' * 9_000}"))) < 600
