"""If a disk or a quota is full, the error names the reason, and Airflow retries the task."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from deltalite.errors import SourceError, StorageError
from deltalite.spark.runtime.errors import data_error

QUOTA = (
    "The DiskSpace quota of /lake/orders is exceeded: quota = 1 B = 1 B but diskspace consumed = 134217728 B = 128 MB"
)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("java.io.IOException: No space left on device", "No space left on device"),
        ("java.io.IOException: Disk quota exceeded", "Disk quota exceeded"),
        (f"org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: {QUOTA}\n\tat x", QUOTA),
    ],
)
def test_the_error_of_full_storage_has_the_reason(cause, reason):
    error = data_error(PySparkException(f"[TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030\nCaused by: {cause}"))
    assert type(error) is StorageError
    assert str(error).endswith(f"or a disk of an executor, is full. {reason} Free space, or raise the quota.")


def test_a_row_whose_message_has_the_same_words_is_an_error_of_the_row():
    error = data_error(PySparkException("[USER_RAISED_EXCEPTION] No space left on device SQLSTATE: P0001"))
    assert type(error) is SourceError
