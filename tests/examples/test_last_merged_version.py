"""The change-feed pipeline finds the last merged version of the source in the history of the copy."""

from __future__ import annotations

import runpy

import deltalake
import pyarrow as pa
import pytest

from tests.examples.dag_runs import EXAMPLES

pytestmark = pytest.mark.airflow


def test_the_last_merged_version_is_minus_one_for_a_new_copy_and_an_error_after_log_cleanup(tmp_path):
    last_merged_version = runpy.run_path(str(EXAMPLES / "customers_changes.py"))["last_merged_version"]
    copy = tmp_path / "copy"
    assert last_merged_version(str(copy)) == -1
    deltalake.write_deltalake(str(copy), pa.table({"id": [1]}))
    assert last_merged_version(str(copy)) == -1
    deltalake.write_deltalake(str(copy), pa.table({"id": [2]}), mode="append")
    deltalake.DeltaTable(str(copy)).create_checkpoint()
    (copy / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(ValueError, match="no longer contains the last merged version"):
        last_merged_version(str(copy))
