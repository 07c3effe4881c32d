"""Audits of row counts need no query if the log has the counts."""

from __future__ import annotations

from deltalite.protocol.schema import StructType
from deltalite.requests import Audit, AuditScope
from deltalite.spark.audits.measuring import AuditedRows, measure_audits
from deltalite.spark.audits.resolving import ResolvedAudit
from deltalite.txn.audits import Measurement


def test_row_counts_are_read_from_the_log_once_for_all_audits():
    calls = []

    def count(name, number):
        return lambda: (calls.append(name), number)[1]

    audits = [
        ResolvedAudit(audit=Audit(name=name, row_count=True, max_change=0.5), scope=scope)
        for name, scope in (("a", AuditScope.TABLE), ("b", AuditScope.TABLE), ("c", AuditScope.NEW_ROWS))
    ]
    scopes = {
        AuditScope.TABLE: AuditedRows(frame=lambda: None, row_count=count("table", 4)),
        AuditScope.NEW_ROWS: AuditedRows(frame=lambda: None, row_count=count("new rows", 1)),
    }
    options = {"root": "/t", "row_count_before": count("before", 3)}
    measurements = measure_audits(None, audits, scopes, StructType(()), **options)
    assert measurements == [Measurement(value=value, before=3) for value in (4, 4, 1)]
    assert sorted(calls) == ["before", "new rows", "table"]
