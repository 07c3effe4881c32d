"""A check measures each kind of audit on a version of a table, and fails for audits of level `fail` only."""

from __future__ import annotations

import re

import pytest

from deltalite.commands.check import check
from deltalite.errors import AuditFailedError, CorruptDataFileError, InvalidRequestError, TableNotFoundError
from deltalite.requests import Audit, CheckRequest
from tests.support.tables import data_files, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

ROWS = (
    "1, 'a', 1.50, TIMESTAMP'2026-01-01 10:00:00Z', TIMESTAMP_NTZ'2026-01-01 10:00:00', DATE'2026-01-01'",
    "2, NULL, 2.50, TIMESTAMP'2026-01-01 12:00:00Z', TIMESTAMP_NTZ'2026-01-01 12:00:00', DATE'2026-01-02'",
    "2, 'z', NULL, NULL, NULL, NULL",
    "NULL, 'a', 0.00, NULL, NULL, NULL",
)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    """A folder with the tables `orders` (two versions) and `customers`."""
    folder = tmp_path_factory.mktemp("lake")
    write_rows(spark, folder / "orders", values("id, customer, amount, at, local_at, day", *ROWS))
    write_rows(
        spark, folder / "orders", values("id, customer, amount, at, local_at, day", "9, 'a', 1.00, NULL, NULL, NULL")
    )
    write_rows(spark, folder / "customers", values("name", "'a'", "'b'"))
    return folder


def check_orders(spark, lake, *audits, **version):
    """Check the table `orders`; returns the results by the names of the audits."""
    request = CheckRequest(table=str(lake / "orders"), audits=tuple(Audit(**audit) for audit in audits), **version)
    return {result.name: result for result in check(spark, request).audits}


def test_each_kind_of_audit_measures_the_rows_of_the_version(spark, lake):
    one_day = {"max_age_hours": 24, "as_of": "2026-01-02T00:00:00Z"}
    results = check_orders(
        spark,
        lake,
        {"name": "condition", "rows": "customer IS NULL OR amount > 2", "max_rows": 1},
        {"name": "share", "rows": "id = 2", "max_share": 0.5},
        {"name": "key", "unique": ("id",), "level": "warn"},
        {"name": "two columns", "unique": ("ID", "customer")},
        {"name": "other", "references": {"customer": "name"}, "in_table": str(lake / "customers"), "level": "warn"},
        {"name": "itself", "references": {"id": "id"}, "in_table": str(lake / "orders")},
        {"name": "rows", "row_count": True, "min": 4, "max": 4},
        {"name": "sum", "aggregate": "sum(amount)", "min": 4, "max": 4},
        {"name": "exact", "aggregate": "max(amount) - 2.4", "max": 0.1},
        {"name": "float", "aggregate": "max(FLOAT(0.1))", "min": 0.1, "max": 0.1},
        {"name": "float nan", "aggregate": "max(FLOAT('NaN'))", "min": 0, "level": "warn"},
        {"name": "boolean", "aggregate": "count(*) = count(DISTINCT id, customer) + 2"},
        {"name": "no value", "aggregate": "sum(CASE WHEN id > 5 THEN 1 END)", "min": 0, "level": "warn"},
        {"name": "timestamp", "freshness": "at", **one_day},
        {"name": "without zone", "freshness": "local_at", **one_day},
        {"name": "date", "freshness": "day", **one_day},
        {"name": "old", "freshness": "at", **one_day, "max_age_hours": 11.5, "level": "warn"},
        version=0,
    )
    measured = {name: (result.passed, result.measured) for name, result in results.items()}
    assert measured == {
        "condition": (True, 1),
        "share": (True, 2),
        "key": (False, 2),
        "two columns": (True, 0),
        "other": (False, 1),
        "itself": (True, 0),
        "rows": (True, 4),
        "sum": (True, 4),
        "exact": (True, 0.1),
        "float": (True, 0.1),
        "float nan": (False, "nan"),
        "boolean": (True, True),
        "no value": (False, None),
        "timestamp": (True, 12.0),
        "without zone": (True, 12.0),
        "date": (True, 0.0),
        "old": (False, 12.0),
    }
    assert {result.rows for result in results.values() if result.kind == "rows"} == {4}
    assert results["other"].version == 0


def test_nan_counts_as_a_key_and_null_does_not(spark, tmp_path):
    keys = values("x, f", "1, DOUBLE('NaN')", "1, DOUBLE('NaN')", "1, NULL", "1, NULL", "1, 2.0D")
    write_rows(spark, tmp_path / "keys", keys)
    write_rows(spark, tmp_path / "names", values("f", "2.0D"))
    audits = (
        Audit(name="key", unique=("x", "f"), level="warn"),
        Audit(name="other", references={"f": "f"}, in_table=str(tmp_path / "names"), level="warn"),
        Audit(name="itself", references={"f": "f"}, in_table=str(tmp_path / "keys")),
    )
    result = check(spark, CheckRequest(table=str(tmp_path / "keys"), audits=audits))
    assert [(audit.name, audit.measured) for audit in result.audits] == [("key", 2), ("other", 2), ("itself", 0)]


def test_sql_that_fails_for_a_row_leaves_the_other_audits_their_values(spark, lake):
    wrong = {"name": "cast", "rows": "CAST(customer AS INT) > 1", "level": "warn"}
    audits = (
        wrong,
        {"name": "null", "rows": "customer IS NULL", "max_share": 0.5},
        {"name": "other", "references": {"customer": "id"}, "in_table": str(lake / "orders"), "level": "warn"},
        {"name": "rows", "row_count": True, "min": 4},
    )
    results = check_orders(spark, lake, *audits, version=0)
    assert {name: (result.passed, result.measured) for name, result in results.items()} == {
        "cast": (False, None), "null": (True, 1), "other": (False, None), "rows": (True, 4),
    }  # fmt: skip
    assert results["cast"].error.startswith("[CAST_INVALID_INPUT]") and "CAST_INVALID_INPUT" in results["other"].error
    assert results["null"].error is None
    failing = ({**wrong, "level": "fail"}, {"name": "no rows", "row_count": True, "max": 0})
    with pytest.raises(InvalidRequestError, match=r"'cast' .*CAST_INVALID_INPUT.*'no rows' .*measured 4 rows, allowed"):
        check_orders(spark, lake, *failing, version=0)


def test_a_row_count_is_compared_with_the_version_before(spark, lake):
    audit = {"name": "growth", "row_count": True, "max_change": 0.25}
    result = check_orders(spark, lake, audit)["growth"]
    assert (result.passed, result.measured, result.before) == (True, 5, 4)
    with pytest.raises(AuditFailedError, match=r"measured 5 rows \(4 rows before\), allowed max_change=0\.24"):
        check_orders(spark, lake, audit | {"max_change": 0.24})
    assert check_orders(spark, lake, audit | {"max_change": 0}, version=0)["growth"].before is None
    with pytest.raises(InvalidRequestError, match=r"Could not check .*checked without the parameter `version`"):
        check(spark, CheckRequest(table=f"{lake}/orders@v0", audits=(Audit(**audit),)))


def test_a_failure_names_each_audit_of_level_fail_that_did_not_pass(spark, lake, caplog):
    with pytest.raises(AuditFailedError) as caught:
        check_orders(
            spark,
            lake,
            {"name": "first", "rows": "id = 2", "max_share": 0.1},
            {"name": "second", "unique": ("id",)},
            {"name": "third", "rows": "id = 2", "level": "warn"},
            {"name": "fourth", "rows": "id = 3"},
        )
    assert "2 of 4 audits" in caught.value.problem
    assert "'first' (rows on table): measured 2 of 5 rows, allowed max_share=0.1; 'second'" in caught.value.problem
    assert "version 1" in caught.value.problem
    assert "'third'" not in caught.value.problem
    assert [message for message in caplog.messages if "'third'" in message]


@pytest.mark.parametrize(
    ("audit", "reason"),
    [
        ({"rows": "missing IS NULL"}, r"UNRESOLVED_COLUMN.*`missing`"),
        ({"rows": "id"}, "it is int, not boolean"),
        ({"rows": "id IN (SELECT 1)"}, "it may not use InSubquery"),
        ({"rows": "day < current_date()"}, r"it contains current_date\(\)"),
        ({"rows": "count(*) > 1"}, "it does not return exactly one value for a row"),
        ({"rows": "row_number() OVER (ORDER BY id) > 1"}, "it does not return exactly one value for a row"),
        ({"aggregate": "sum(row_number() OVER (ORDER BY id))", "min": 0}, "a window function inside an aggregate"),
        ({"aggregate": "sum(sum(amount)) OVER ()", "min": 0}, "it does not return exactly one value for all rows"),
        ({"aggregate": "amount", "min": 0}, "MISSING_GROUP_BY"),
        ({"aggregate": "sum(amount)"}, "it is a number, which needs min or max"),
        ({"aggregate": "sum(amount) > 0", "min": 0}, "it is a boolean, which has no min or max"),
        ({"aggregate": "max(customer)", "min": 0}, "it is string, and neither a number nor a boolean"),
        ({"aggregate": "(SELECT 1)", "min": 0}, "it may not use ScalarSubquery"),
        ({"aggregate": "count_if(at > now())", "min": 0}, r"it contains now\(\)"),
        ({"aggregate": "sum(rand())", "min": 0}, "Non-deterministic expression"),
        ({"unique": ("missing",)}, "the column 'missing'"),
        ({"references": {"id": "missing"}, "in_table": "customers"}, "the column 'missing'.*customers"),
        ({"freshness": "amount", "max_age_hours": 1, "as_of": "now"}, r"'amount' of the type decimal\(3,2\)"),
    ],
    ids=str,
)
def test_an_audit_that_cannot_be_computed_is_refused_by_its_name(spark, lake, audit, reason):
    if "in_table" in audit:
        audit = audit | {"in_table": str(lake / audit["in_table"])}
    with pytest.raises(InvalidRequestError) as error:
        check_orders(spark, lake, {"name": "wrong", **audit})
    kind = next(iter(audit))
    assert re.match(rf"{kind} of the audit 'wrong' .*{reason}", error.value.problem, re.DOTALL), error.value.problem


def test_an_aggregate_that_fails_for_a_row_is_refused_by_its_name(spark, lake):
    with pytest.raises(InvalidRequestError, match=r"'wrong' \(aggregate on table\): no value.*DIVIDE_BY_ZERO"):
        check_orders(spark, lake, {"name": "wrong", "aggregate": "sum(amount) / 0", "min": 0})


def test_a_reference_into_a_missing_table_is_an_error_of_that_table(spark, lake):
    with pytest.raises(TableNotFoundError, match="missing"):
        check_orders(spark, lake, {"name": "a", "references": {"id": "id"}, "in_table": str(lake / "missing")})


def test_the_error_about_a_missing_file_of_the_other_table_names_both_tables(spark, lake, tmp_path):
    write_rows(spark, tmp_path / "names", values("name", "'a'"))
    (name,) = data_files(tmp_path / "names")
    (tmp_path / "names" / name).unlink()
    audit = {"name": "a", "references": {"customer": "name"}, "in_table": str(tmp_path / "names")}
    with pytest.raises(CorruptDataFileError, match=f"{lake / 'orders'} or {tmp_path / 'names'} names.*{name}"):
        check_orders(spark, lake, audit)
