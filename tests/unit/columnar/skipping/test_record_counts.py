"""The number of records of many files, with and without the fast path."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltalite.columnar.skipping import record_counts
from deltalite.columnar.skipping.record_counts import num_records


def counts(*texts: str | None) -> list[int | None]:
    return num_records(pa.chunked_array([pa.array(texts, pa.string())])).to_pylist()


@pytest.mark.parametrize(
    "text", ['{"numRecords":12}', '{"numRecords": 12, "minValues": {}}', '{ "numRecords" :12 , "x":1}']
)
def test_the_usual_texts_need_no_parser(monkeypatch, text):
    monkeypatch.setattr(record_counts, "parse_stats", pytest.fail)
    assert counts(text, None) == [12, None]


def test_other_texts_are_parsed():
    texts_without_count = ["{}", None, "broken", '{"numRecords":"x"}', '{"numRecords":1.5}']
    assert counts('{"minValues":{},"numRecords":7}', *texts_without_count) == [7, None, None, None, None, None]
    assert counts('{"minValues":{},"numRecords":7}', '{"numRecords":8}') == [7, 8]
