"""The descriptions of a catalog's tables: Delta tables have an address, and other entries a row."""

from __future__ import annotations

from deltalite.errors import StorageError
from deltalite.inspection.catalog_tables import sort_tables
from deltalite.inspection.table_rows import Status, TableRow


def description(*lines, provider="delta", location="s3://lake/orders", kind="EXTERNAL"):
    """The text of a table in the order of Spark's session catalog; other lines come between provider and location."""
    return "\n".join(
        ["Catalog: spark_catalog", "Database: sales", "Table: t", f"Type: {kind}", f"Provider: {provider}", *lines,
         f"Location: {location}", "Schema: root", " |-- id: long (nullable = true)", ""]
    )  # fmt: skip


def test_delta_tables_have_addresses_and_names_and_other_entries_have_rows():
    tables = sort_tables(
        "lake.sales",
        {
            "orders": description(),
            "local": description(provider="DELTA", location="file:/lake/a b%20ü"),
            "same": description(location="s3a://lake/orders/"),
            "parquet": description(provider="parquet"),
            "view": description(kind="VIEW"),
            "hive": "Type: MANAGED\nLocation: s3://lake/x\n",
            "gone": StorageError("The catalog does not answer.", remedy="Retry."),
        },
    )
    assert tables.addresses == ("s3://lake/orders", "/lake/a b%20ü", "s3a://lake/orders/")
    assert tables.with_name(TableRow(table="s3://lake/orders")).name == "lake.sales.orders, lake.sales.same"
    assert tables.with_name(TableRow(table="/lake/a b%20ü")).name == "lake.sales.local"
    assert {row.name: (row.table, row.status, row.skip_reason) for row in tables.other_rows} == {
        "lake.sales.parquet": ("lake.sales.parquet", Status.SKIPPED, "its format is parquet"),
        "lake.sales.view": ("lake.sales.view", Status.SKIPPED, "it is a view"),
        "lake.sales.hive": ("lake.sales.hive", Status.SKIPPED, "the catalog names no format"),
        "lake.sales.gone": ("lake.sales.gone", Status.FAILED, None),
    }
    assert tables.other_rows[-1].error.is_retryable
    skipped = tables.other_rows[0]
    assert (skipped.label, tables.with_name(TableRow(table="/lake/a b%20ü")).label) == (
        "lake.sales.parquet", "lake.sales.local (/lake/a b%20ü)",
    )  # fmt: skip
    assert (skipped.as_dict()["reason"], skipped.summary) == ("its format is parquet",) * 2


def test_a_text_of_a_user_never_names_the_address_of_a_table():
    tables = sort_tables(
        "sales",
        {
            "location": description("Comment: see", "Location: s3://lake/other"),
            "format": description("Comment: see", "Provider: delta", provider="parquet"),
            "cut": description("Comment: see", "Location: s3://lake/other", "Schema: root"),
            "kind": description("Comment: see", "Type: VIEW"),
            "invalid": description(location="s3:/"),
            "no_place": description().replace("Location: ", "Place: "),
        },
    )
    assert tables.addresses == ("s3://lake/orders",), "the first line `Type:` is from the catalog, not from a comment"
    errors = {row.name: row.error for row in tables.other_rows}
    assert {name: error.kind for name, error in errors.items()} == {
        "sales.location": "TableError", "sales.format": "TableError", "sales.cut": "TableError",
        "sales.invalid": "InvalidTableAddressError", "sales.no_place": "TableError",
    }  # fmt: skip
    assert "shows 2 locations: s3://lake/other, s3://lake/orders." in errors["sales.location"].message
    assert "shows 0 locations." in errors["sales.no_place"].message
    assert not errors["sales.location"].is_retryable
