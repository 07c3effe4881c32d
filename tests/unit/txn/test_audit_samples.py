"""A sample row is one short line of JSON, whatever the values are, and shows no secret."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

from deltalite.txn.audit_samples import MAX_SAMPLE_CHARACTERS, MAX_TOTAL_CHARACTERS, sample_text, within_total


def test_values_are_json_that_a_person_reads():
    row = {"id": 7, "ok": True, "x": 0.5, "name": "Zoë", "gone": None, "day": date(2026, 1, 2), "sum": Decimal("1.50")}
    assert sample_text(row) == (
        '{"id": 7, "ok": true, "x": 0.5, "name": "Zoë", "gone": null, "day": "2026-01-02", "sum": "1.50"}'
    )


def test_untrusted_text_stays_one_printable_line():
    text = 'a"b\\c\nINFO deltalite: fake\r\x1b[31m\u2028\u202e\x85\ud800\U000e0001'
    for row in ({"a": text}, {text: 1}):
        line = sample_text(row)
        assert line.isprintable()
        line.encode()
        assert len(line.splitlines()) == 1
    assert json.loads(sample_text({"a": text})) == {"a": text}


def test_numbers_that_json_does_not_have_are_texts():
    assert json.loads(sample_text({"x": float("nan"), "y": float("-inf")})) == {"x": "nan", "y": "-inf"}


def test_long_values_are_cut_and_columns_that_do_not_fit_are_counted():
    row = {f"column {number}": "x" * 1000 for number in range(60)}
    line = sample_text(row)
    assert len(line) <= MAX_SAMPLE_CHARACTERS
    sample = json.loads(line)
    assert sample.pop("...") == f"{60 - len(sample)} more columns"
    assert sample["column 0"] == "x" * 80 + "..."


def test_secrets_are_stars():
    row = {
        "api_key": "abcdefgh",
        "token": 12345678,
        "password": None,
        "url": "jdbc:postgresql://host/db?user=me&password=hunter2hunter2" + "x" * 900,
        "long": "y" * 70 + " https://me:hunter2hunter2@host/",
    }
    line = sample_text(row)
    assert "hunter2" not in line
    assert json.loads(line) | {"url": "", "long": ""} == {
        "api_key": "***",
        "token": "***",
        "password": None,
        "url": "",
        "long": "",
    }


def test_all_samples_together_have_a_maximum():
    lines = ["x" * MAX_SAMPLE_CHARACTERS] * 6
    kept = within_total({"a": lines, "b": lines, "c": ["y"]})
    assert {name: len(texts) for name, texts in kept.items()} == {"a": 6, "b": 2}
    assert sum(len(text) for texts in kept.values() for text in texts) == MAX_TOTAL_CHARACTERS
