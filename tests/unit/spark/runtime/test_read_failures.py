"""The message about an unreadable file names the file and the innermost reason."""

from __future__ import annotations

import pytest

from deltalite.spark.runtime.read_failures import (
    damage_reason,
    has_bad_record,
    has_wrong_checksum,
    permanent_read_failure,
    read_failure,
    type_mismatch_problem,
    unread_path,
)

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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (text_of(UNREAD, "java.io.EOFException: Unexpected end of input stream"), "Unexpected end of input stream"),
        (text_of(UNREAD, "org.xerial.snappy.SnappyIOException: FAILED_TO_UNCOMPRESS(5)"), "FAILED_TO_UNCOMPRESS(5)"),
        # Parquet reads a footer with a library for networks, so its message names a socket.
        (text_of(UNREAD, "java.io.IOException: can not read class", "x.TTransportException: Socket is closed by peer."),
         "Socket is closed by peer"),
        (text_of("Job aborted", "java.io.IOException: Could not read footer for file: x", "com.google.protobuf."
                 "InvalidProtocolBufferException: tag had invalid wire type."), "tag had invalid wire type"),
        (text_of("Job aborted", "com.google.protobuf.InvalidProtocolBufferException: input ended\n\tat org.apache.spark"
                 ".sql.execution.datasources.orc.OrcUtils$.readSchema(OrcUtils.scala:100)"), "input ended"),
        (text_of(UNREAD, "java.io.EOFException"), "unexpected end of the file"),
        (text_of(UNREAD, "java.lang.NullPointerException"), "no reason is known"),
    ],
)  # fmt: skip
def test_damage_of_a_file_has_a_reason(text, reason):
    assert damage_reason(text) == reason


@pytest.mark.parametrize(
    "cause",
    [
        "java.net.SocketException: Connection reset",
        "java.net.SocketTimeoutException: Read timed out",
        "java.io.FileNotFoundException: x",
        "java.nio.file.AccessDeniedException: x",
        "java.io.IOException: Stream is closed",
        "org.apache.hadoop.security.AccessControlException: Permission denied: user=x",
        "java.io.InterruptedIOException: x",
        "org.apache.hadoop.fs.s3a.AWSClientIOException: x",
        "software.amazon.awssdk.core.exception.SdkClientException: x",
        "com.google.cloud.storage.StorageException: 503",
        "org.apache.hadoop.hdfs.BlockMissingException: x",
        "org.apache.hadoop.fs.ChecksumException: x",
        "java.lang.OutOfMemoryError: Java heap space",
        "java.lang.NoClassDefFoundError: com/github/luben/zstd/Zstd",
        "java.lang.UnsupportedOperationException: x",
        "java.lang.RuntimeException: native zStandard library not available",
        "java.io.IOException: No space left on device",
        "org.apache.parquet.crypto.ParquetCryptoRuntimeException: no key",
        "org.apache.spark.SparkUpgradeException: x",
    ],
)
def test_a_fault_of_the_storage_or_the_installation_is_no_damage(cause):
    assert damage_reason(text_of(UNREAD, cause)) is None
    assert damage_reason(text_of(UNREAD, "java.io.IOException: could not read page", cause)) is None


def test_the_reason_alone_may_show_damage_and_a_wrong_type_is_no_damage():
    """Spark does not name the file if it infers the columns of JSON files with `multiLine`."""
    reason = "Unexpected end of input stream"
    assert damage_reason(text_of("Job aborted", f"java.io.EOFException: {reason}")) == reason
    assert damage_reason(text_of("Job aborted", "java.io.EOFException: null")) is None
    assert damage_reason(text_of(UNREAD.replace("NO_HINT", "PARQUET_COLUMN_DATA_TYPE_MISMATCH"), "a.B: c")) is None
    assert (unread_path(text_of(UNREAD)), unread_path(text_of("Job aborted"))) == (FILE, None)


def test_a_local_file_that_does_not_match_its_checksums_is_damaged():
    """On HDFS another replica may have the right bytes, so the same exception is a fault of the storage."""
    for message in ("Checksum error: file:/in/x.parquet at 0 exp: 1 got: 2", "Checksum CRC: file:/in/x.parquet"):
        text = text_of(UNREAD, f"org.apache.hadoop.fs.ChecksumException: {message}")
        assert "does not match its checksums" in damage_reason(text)
        assert permanent_read_failure(text).startswith(f"{FILE}: Checksum ") and has_wrong_checksum(text)
    on_hdfs = text_of(
        UNREAD, "org.apache.hadoop.fs.ChecksumException: Checksum error: /in/x.parquet at 0 exp: 1 got: 2"
    )
    assert damage_reason(on_hdfs) is None and not has_wrong_checksum(on_hdfs)
    assert permanent_read_failure(on_hdfs) is None


def test_a_file_with_other_types_than_the_schema_has_a_problem():
    mismatch = "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Data type mismatches when reading file:/x."
    assert type_mismatch_problem(text_of(mismatch)) == "Data type mismatches when reading file:/x."
    avro = "Cannot convert Avro field 'id' to SQL field 'id' because schema is incompatible"
    prefix = "org.apache.spark.sql.avro.IncompatibleSchemaException: "
    text = text_of(UNREAD, f"{prefix}Cannot convert Avro type {{}} to SQL type STRUCT<id: INT>.", f"{prefix}{avro}")
    assert type_mismatch_problem(text) == avro
    assert permanent_read_failure(text) == f"{FILE}: {avro}."
    assert type_mismatch_problem(text_of(UNREAD, "java.io.IOException: not a gzip file")) is None
