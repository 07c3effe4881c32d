"""Bytes are encoded as Z85 text, the text is decoded to these bytes, and invalid text is rejected."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.protocol import z85
from tests.support.vectors import z85 as reference_encode


def test_the_example_of_the_rfc_is_decoded():
    assert z85.decode("HelloWorld") == bytes.fromhex("864FD26FB559F75B")


def test_the_uuid_in_the_example_of_the_protocol_is_decoded():
    assert UUID(bytes=z85.decode("^-aqEH.-t@S}K{vb[*k^")) == UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")


def test_an_empty_text_decodes_to_no_bytes():
    assert z85.decode("") == b""


@given(st.binary(max_size=40).map(lambda data: data[: len(data) // 4 * 4]))
def test_all_bytes_survive_encoding_and_decoding(data):
    text = z85.encode(data)
    assert text == reference_encode(data)
    assert z85.decode(text) == data


def test_bytes_of_another_length_are_rejected():
    with pytest.raises(ValueError, match="multiple of 4"):
        z85.encode(b"abc")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Hell", "the length 4 is not"),
        ("Hello1", "the length 6 is not"),
        ("Hel,o", "','"),
        ("Hel o", "' '"),
        ("Hellö", "'ö'"),
        ("#####", "more than four bytes"),
        ("%nSc1", "more than four bytes"),
    ],
)
def test_an_invalid_text_is_rejected_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        z85.decode(text)


def test_the_greatest_group_decodes_to_four_full_bytes():
    assert z85.decode("%nSc0") == b"\xff\xff\xff\xff"
