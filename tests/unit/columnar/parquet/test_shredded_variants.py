"""The reader rebuilds shredded variants and rejects malformed ones. tests/spark tests the variants of Spark."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.columnar.parquet.variant_encoding import BrokenVariantError, members_of, names_of
from deltalite.errors import CorruptDataFileError
from deltalite.protocol.schema import PrimitiveType
from tests.support.lake import struct_of

NUMBER = pa.int64()
LONG, VARIANT = PrimitiveType("long"), PrimitiveType("variant")
MEMBER_TYPE = pa.struct([("value", pa.binary()), ("typed_value", NUMBER)])
TYPE_OF_A, TYPE_OF_B = pa.struct([("a", MEMBER_TYPE)]), pa.struct([("b", MEMBER_TYPE)])
METADATA_OF_A = b"\x01\x01\x00\x01a"
OBJECT_OF_A = b"\x02\x01\x00\x00\x02\x0c\x07"  # {"a": 7}


def shredded(*rows, typed=NUMBER, metadata=METADATA_OF_A):
    """A table with a shredded variant, at the top and in a struct.

    Each row is the `value` and the `typed_value` of a variant, or None. `typed` is the type of `typed_value`, and
    `metadata` is the `metadata` of each variant.
    """
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", typed)])
    values = [row and {"value": row[0], "typed_value": row[1], "metadata": metadata} for row in rows]
    nested = pa.array([{"v": row_values} for row_values in values], pa.struct([("v", kind)]))
    return pa.table({"id": list(range(len(rows))), "v": pa.array(values, kind), "n": nested})


def test_a_shredded_variant_is_rebuilt_at_any_depth(lake):
    lake.add(shredded((None, 5), (b"\x00", None), None, (None, None)))
    rows_read = lake.rows_of(struct_of(v=VARIANT, n=struct_of(v=VARIANT)))
    values = [b"\x0c\x05", b"\x00", None, b"\x00"]
    assert [row["v"] and row["v"]["value"] for row in rows_read] == values
    assert [row["n"]["v"] and row["n"]["v"]["value"] for row in rows_read] == values


def test_a_missing_member_is_not_a_null_member(lake):
    members = [{"typed_value": 7}, {"value": b"\x00"}, {}]
    lake.add(shredded(*((None, {"a": member}) for member in members), (OBJECT_OF_A, None), typed=TYPE_OF_A))
    variants = [row["v"]["value"] for row in lake.rows_of(struct_of(v=VARIANT))]
    assert variants == [OBJECT_OF_A, b"\x02\x01\x00\x00\x01\x00", b"\x02\x00\x00", OBJECT_OF_A]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (shredded((b"\x00", 5)), "both 'value' and 'typed_value'"),
        (shredded((OBJECT_OF_A, {"a": {"typed_value": 1}}), typed=TYPE_OF_A), "member 'a' twice"),
        (shredded((b"\x00", {"a": {}}), typed=TYPE_OF_A), "is not an object"),
        (shredded((None, {"b": {"typed_value": 1}}), typed=TYPE_OF_B), "lacks the name 'b'"),
        (shredded((OBJECT_OF_A[:-1], {"b": {}}), typed=TYPE_OF_B), "cut short"),
        (shredded((b"\x02\x01\x00\x09\x02\x0c\x07", {"b": {}}), typed=TYPE_OF_B), "beyond its end"),
        (shredded((b"\x42\xff\xff\xff\xff", {"b": {}}), typed=TYPE_OF_B), "cut short"),
        (shredded((b"\x02\x01\x05\x00\x01\x00", {"b": {}}), typed=TYPE_OF_B), "metadata lacks"),
        (shredded((b"\x02\x01\x00\x00\x01\xa8", {"b": {}}), typed=TYPE_OF_B), "unknown type 42"),
        (shredded((None, {"a": {"typed_value": 1}}), typed=TYPE_OF_A, metadata=b"\x02"), "version 1"),
        (shredded((None, {"a": {"typed_value": 1}}), typed=TYPE_OF_A, metadata=b"\x01\xff"), "cut short"),
        (
            shredded((None, {"a": {"typed_value": 1}}), typed=TYPE_OF_A, metadata=b"\x01\x01\x05\x01a"),
            "invalid offsets",
        ),
        (shredded((None, 1), metadata=None), "has no metadata"),
        (shredded((None, 1), typed=pa.uint8()), "uint8, which variants do not have"),
        (shredded((None, b"xyz"), typed=pa.binary(3)), "fixed_size_binary"),
        (shredded((None, {"a": 1}), typed=pa.struct([("a", pa.int64())])), "part 'a' is not a struct of"),
        (shredded((None, [1]), typed=pa.list_(pa.int64())), "part 'element' is not a struct of"),
    ],
)
def test_the_error_names_file_and_column_of_a_malformed_shredded_variant(lake, table, problem):
    lake.add(table)
    with pytest.raises(CorruptDataFileError, match=rf"(?s)f\.parquet.*{problem}|'v'.*f\.parquet.*{problem}"):
        lake.rows_of(struct_of(v=VARIANT))
    assert lake.rows_of(struct_of(id=LONG)) == [{"id": 0}]


@given(value=st.binary(max_size=24), metadata=st.binary(max_size=16))
def test_any_bytes_of_a_partly_shredded_object_are_read_or_raise_a_typed_error(value, metadata):
    with contextlib.suppress(BrokenVariantError):
        dict(members_of(value, names_of(b"\x01" + metadata)))
