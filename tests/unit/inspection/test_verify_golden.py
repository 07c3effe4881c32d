"""`verify` of tables of other engines: valid tables have no findings, and each broken table has one."""

from __future__ import annotations

import pytest

from deltalite.errors import DeltaLiteError
from deltalite.inspection.verify import verify
from deltalite.inspection.versions import contains
from deltalite.storage.local import LocalLogStore
from tests.support.golden import EXPECTED_OUTCOMES, one_per_feature, table_names
from tests.unit.builders import load

# Real faults in golden tables that every engine can read.
FAULTS = {
    # Its checksum says that the table has ten files, but the table has none.
    "delta-kernel-rs/crc-full": {"checksum-differs"},
    # Its checkpoint was written for another table.
    "delta-kernel-rs/parquet_row_group_skipping": {"checkpoint-differs"},
    # Its statistics say that a column has no nulls, but the column is missing from the files and so reads as null.
    "delta-kernel-rs/parsed-stats": {"wrong-statistics"},
    # The metadata of its first commit has no schema. The metadata of its second commit has one.
    "delta-rs/delta-live-table": {"unreadable-commit"},
    # Its statistics use the Julian calendar, and its file uses the Gregorian calendar.
    "trino/databricks73/old_dates": {"wrong-statistics"},
    "gen-deltalake/corrupt_last_checkpoint": {"last-checkpoint"},
    "gen-deltalake/wrong_last_checkpoint": {"last-checkpoint"},
}
# Some checksums of old writers lack the protocol and the metadata, and some checksums are damaged on purpose.
TOLERATED_KINDS = {"unreadable-checksum"}


@pytest.mark.parametrize("name", one_per_feature("read", "read-count-only"))
def test_tables_of_other_engines_have_only_true_findings(golden, name):
    report = verify(LocalLogStore(str(golden / "tables" / name)))
    kinds = {finding.kind.value for finding in report.findings}
    assert kinds - TOLERATED_KINDS == FAULTS.get(name, set()), report.findings
    assert contains(report.readable, report.newest_version)


@pytest.mark.parametrize("name", table_names("must-error", "log-only"))
def test_unreadable_tables_have_errors(golden, name):
    try:
        report = verify(LocalLogStore(str(golden / "tables" / name)))
    except DeltaLiteError:
        return
    # The data files of a log-only table are not stored here. The table has no errors if its newest version lists none.
    if EXPECTED_OUTCOMES[name] == "log-only" and not load(LocalLogStore(str(golden / "tables" / name))).files.num_rows:
        return
    assert report.has_errors
