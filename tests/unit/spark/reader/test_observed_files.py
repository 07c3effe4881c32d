"""The files to which observed keys belong: paths in Spark's spelling, or numbers if there are many files."""

from __future__ import annotations

import zlib

from deltalite.spark.reader import observed_files as module
from deltalite.spark.reader.observed_files import observed_files


def test_paths_in_the_spelling_of_spark_name_their_files():
    addresses = ["s3://landing/a b%.csv", "s3://landing/c.csv", "s3://landing/d.csv"]
    assert observed_files(["s3a://landing/a%20b%25.csv", "s3a://landing/d.csv"], addresses) == [
        "s3://landing/a b%.csv", "s3://landing/d.csv",
    ]  # fmt: skip


def test_a_number_names_all_its_files_and_depends_on_letters_and_digits_only(monkeypatch):
    monkeypatch.setattr(module, "MAX_KEYS", 2)
    addresses = ["s3://landing/x%41ü.csv", "/landing/3.csv", "file:/landing/2.csv"]
    numbers = [str(zlib.crc32(letters) % 2) for letters in (b"x41csv", b"landing3csv", b"landing2csv")]
    assert set(numbers) == {"0", "1"}, "the test needs two numbers"
    for number in ("0", "1"):
        files = [address for address, other in zip(addresses, numbers, strict=True) if other == number]
        assert observed_files([number], addresses) == files
    assert observed_files(["0", "1"], addresses) == addresses
    assert observed_files([], addresses) == []
