"""The error and the log of an audit that did not pass show sample rows, and the commit shows none."""

from __future__ import annotations

import json
import logging

import pytest

from deltalite import DeltaTable
from deltalite.errors import AuditFailedError
from deltalite.requests import Audit
from tests.support.tables import values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

LOGIN = "named_struct('password', 'hidden-key', 'n', map('token', 'hidden-key'))"
NAMES_AND_ROWS = (
    "a.b, customer, id, text, bytes, price, tags, login, at, api_key",
    "1, 'ann', 1, 'ok', X'00', 1.5BD, array(1), LOGIN, TIMESTAMP '2026-01-01 00:00:00', 'hidden-key'",
    "2, NULL, 7, 'two\\nlines', X'00FF', 2.5BD, array(1, 2), LOGIN, TIMESTAMP '2026-01-01 00:00:00', 'hidden-key'",
    "3, 'bob', 7, repeat('x', 5000), X'00FF', NULL, array(1, 2), LOGIN, TIMESTAMP '2026-01-01 00:00:00', 'hidden-key'",
    "4, 'bob', 7, '', X'00FF', NULL, array(1, 2), LOGIN, TIMESTAMP '2026-01-01 00:00:00', 'hidden-key'",
)


def rows_of_all_types():
    columns, *rows = NAMES_AND_ROWS
    return values(columns.replace("a.b", "`a.b`"), *(row.replace("LOGIN", LOGIN) for row in rows))


def audits(level, customers, samples=None):
    options = {"level": level, "samples": samples}
    return (
        Audit(name="customers", rows="customer IS NULL", **options),
        Audit(name="key", unique=("id",), on="table", **options),
        Audit(name="known", references={"customer": "name"}, in_table=customers, **options),
        Audit(name="sum", aggregate="sum(id)", min=100, level=level),
    )


def test_audits_that_do_not_pass_show_samples_only_in_the_error_and_the_log(spark, tmp_path, caplog):
    table, customers = tmp_path / "t", str(tmp_path / "customers")
    write_rows(spark, customers, values("name", "'ann'"))
    with pytest.raises(AuditFailedError) as caught:
        write_rows(spark, table, rows_of_all_types(), audits=audits("fail", customers))
    problem = caught.value.problem
    assert 'Samples of \'customers\': {"customer": null, "a.b": 2, "id": 7, "text": "two\\nlines"' in problem
    assert '"bytes": "00FF", "price": "2.5", "tags": "[1,2]", "login": "{' in problem
    assert '"at": "2026-01-01 00:00:00"' in problem
    assert 'Samples of \'key\': {"id": 7, "number of rows": 3}.' in problem
    assert 'Samples of \'known\': {"customer": "bob", "number of rows": 2}.' in problem
    assert "Samples of 'sum'" not in problem
    assert "hidden-key" not in problem

    caplog.clear()
    with caplog.at_level(logging.WARNING):
        write_rows(spark, table, rows_of_all_types(), audits=audits("warn", customers))
    lines = [record.getMessage() for record in caplog.records if "Sample of" in record.getMessage()]
    assert [line.split("': ")[0] for line in lines] == [
        "Sample of the audit 'customers",
        "Sample of the audit 'key",
        "Sample of the audit 'known",
    ]
    (commit,) = DeltaTable(str(table)).history(limit=1)
    assert "number of rows" not in json.dumps(commit, default=str)
    assert "bob" not in json.dumps(commit, default=str)

    with pytest.raises(AuditFailedError) as caught:
        write_rows(spark, tmp_path / "u", rows_of_all_types(), audits=audits("fail", customers, samples=0))
    assert "Samples of" not in caught.value.problem
