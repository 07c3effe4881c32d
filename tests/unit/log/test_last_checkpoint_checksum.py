"""`is_intact` verifies the checksum in the example of the protocol, and in files of Spark and Databricks."""

from __future__ import annotations

import json

import pytest

from deltalite.log.last_checkpoint_checksum import canonical_md5, is_intact

# PROTOCOL.md, section JSON checksum.
EXAMPLE = (
    """{"k0":"'v 0'", "checksum": "%s", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
)
DIGEST = "6a92d155a59bf2eecbd4b4ec7fd1f875"


def with_checksum(text: str) -> bytes:
    """The object in `text` with the checksum of its content."""
    body = json.loads(text)
    return f'{{"checksum":"{canonical_md5(body)}",{text.strip()[1:]}'.encode()


def test_the_example_of_the_protocol_matches():
    assert is_intact((EXAMPLE % DIGEST).encode())
    body = json.loads(EXAMPLE % DIGEST)
    del body["checksum"]
    assert canonical_md5(body) == DIGEST


@pytest.mark.parametrize(
    ("old", "new"), [("v7", "v8"), ("'v 0'", "'v0'"), ('"k2": 2', '"k2": 3'), ("k4", "K4"), ("[1, 2]", "[2, 1]")]
)
def test_a_changed_object_does_not_match(old, new):
    assert not is_intact((EXAMPLE % DIGEST).replace(old, new).encode())


@pytest.mark.parametrize("checksum", ["", "adsaskfljadfkjadfkj", DIGEST.upper(), DIGEST[:-1]])
def test_another_checksum_does_not_match(checksum):
    assert not is_intact((EXAMPLE % checksum).encode())


def test_an_object_without_a_checksum_is_intact():
    assert is_intact(b'{"version":1,"size":3}')
    assert is_intact(b'{"version":1,"size":3,"checksum":null}')


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"7", b"\xff", b'{"version":1,"version":2}', b'{"a":{"b":1,"b":1}}', b'{"a":NaN}',
     b"[" * 100_000, b'{"checksum":7}', b'{"checksum":{}}', b'{"a":"\\ud800","checksum":"x"}'],
)  # fmt: skip
def test_a_malformed_object_or_checksum_does_not_match(data):
    assert not is_intact(data)


def test_order_whitespace_and_the_top_level_checksum_are_ignored():
    assert is_intact(with_checksum('{"b":{"checksum":"x"},"a":[true,null]}'))
    assert is_intact(with_checksum('{"b":{"checksum":"x"},"a":[true,null]}').replace(b":", b" : "))
    assert not is_intact(with_checksum('{"b":{"checksum":"x"}}').replace(b'"x"', b'"y"'))


def test_numbers_are_compared_as_written():
    """`1.50` and `1.5` are equal numbers with two canonical forms."""
    assert is_intact(b'{"a":1.5,"checksum":"%s"}' % canonical_md5({"a": 1.5}).encode())
    assert not is_intact(b'{"a":1.50,"checksum":"%s"}' % canonical_md5({"a": 1.5}).encode())


def test_every_checksum_of_another_engine_matches(golden):
    count = 0
    for file in sorted((golden / "tables").rglob("_delta_log/_last_checkpoint")):
        data = file.read_bytes()
        if b'"checksum"' in data:
            assert is_intact(data), file
            assert not is_intact(data.replace(b'"size"', b'"Size"', 1)), file
            count += 1
    assert count > 40
