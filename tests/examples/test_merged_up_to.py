"""The change-feed pipeline finds in the copy's log up to which version it has merged the source."""

from __future__ import annotations

import runpy

import deltalake
import pyarrow as pa
import pytest

from tests.examples.dag_runs import EXAMPLES

pytestmark = pytest.mark.airflow


def test_a_copy_whose_log_lacks_the_last_merged_version_raises_an_error(tmp_path):
    merged_up_to = runpy.run_path(str(EXAMPLES / "customers_changes.py"))["merged_up_to"]
    copy = tmp_path / "copy"
    assert merged_up_to(str(copy)) == -1
    deltalake.write_deltalake(str(copy), pa.table({"id": [1]}))
    assert merged_up_to(str(copy)) == -1
    deltalake.write_deltalake(str(copy), pa.table({"id": [2]}), mode="append")
    deltalake.DeltaTable(str(copy)).create_checkpoint()
    (copy / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(ValueError, match="no longer contains the last merged version"):
        merged_up_to(str(copy))
