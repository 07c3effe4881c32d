"""A copy request with a fault is refused, and the JSON of a request gives an equal request."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.requests import CopyRequest, OnRerun, RunIdentity, Source
from deltalite.requests.quarantine import max_bad_count

CSV = Source(format="csv", path="/landing")


def request(source=CSV, **options):
    return CopyRequest(table="/lake/t", source=source, **options)


def test_the_json_of_a_request_gives_an_equal_request():
    original = request(
        file_names=("a.csv", "b/c.csv"),
        partition_by=("day",),
        identity=RunIdentity(app_id="run"),
        properties={"a": "b"},
        max_files=3,
    )
    assert CopyRequest.from_json(original.to_json()) == original
    assert original.sources == {"source": CSV}


def test_a_file_in_a_partition_folder_with_a_hidden_prefix_is_accepted():
    assert request(file_names=("_day=1/a.csv",)).file_names == ("_day=1/a.csv",)


def test_avro_files_with_a_schema_are_accepted():
    assert request(Source(format="avro", path="/landing", schema="id INT")).source.schema == "id INT"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"source": Source(format="delta", path="/x")}, "The format of the source is 'delta'"),
        ({"source": Source(format="csv")}, "no path"),
        ({"source": Source(format="avro", path="/x")}, "takes the columns of one file"),
        ({"source": Source(format="csv", path="/x", options={"pathGlobFilter": "*"})}, "pathGlobFilter"),
        ({"source": Source(format="csv", path="/x", options={"MODE": "DROPMALFORMED"})}, "MODE"),
        ({"source": Source(format="avro", path="/x", schema="a INT", options={"ignoreExtension": "false"})}, "pattern"),
        ({"source": Source(format="json", path="/x", options={"samplingRatio": "0.1"})}, "other records"),
        (
            {
                "source": Source(
                    format="csv", path="/x", options={"header": "true", "UnescapedQuoteHandling": "SKIP_VALUE"}
                )
            },
            "STOP_AT_DELIMITER",
        ),
        ({"source": Source(format="orc", path="/x", options={"mergeSchema": "false"})}, "columns of all files"),
        ({"file_names": ("a",), "pattern": "*"}, "both select files"),
        ({"file_names": ()}, "names no file"),
        ({"file_names": ("/a",)}, "'/a'"),
        ({"file_names": ("a/../../b",)}, "'..'"),
        ({"file_names": ("s3://b/x",)}, "s3://b/x"),
        ({"file_names": ("_a.csv",)}, "hidden"),
        ({"file_names": ("x/.a.csv",)}, "hidden"),
        ({"file_names": ("a.csv._COPYING_",)}, "hidden"),
        ({"file_names": ("_tmp/a.csv",)}, "hidden"),
        ({"source": Source(format="csv", path="/x/*"), "file_names": ("a.csv",)}, "has file_names"),
        ({"source": Source(format="csv", path="/x/*"), "pattern": "de/*.csv"}, "both are patterns for paths"),
        ({"pattern": " "}, "pattern is empty"),
        ({"force": True, "max_files": 1}, "never loads the other files"),
        ({"quarantine": " "}, "quarantine is empty"),
        ({"quarantine": "/lake/t/"}, "is the table itself"),
        ({"quarantine": "/q", "merge_schema": True}, "bad record could add a column"),
        (
            {"quarantine": "/q", "source": Source(format="csv", path="/x", options={"columnNameOfCorruptRecord": "c"})},
            "columnNameOfCorruptRecord",
        ),
        ({"quarantine": "/q", "max_bad_share": 1.5}, "max_bad_share is 1.5"),
        ({"max_bad_share": 0.5}, "the request has none"),
        ({"max_bytes": 0}, "max_bytes is 0"),
        ({"validate_only": 0}, "validate_only is 0"),
        ({"query": "SELECT 1 FROM source"}, "without a schema"),
        ({"file_column": ""}, "file_column is empty"),
        ({"partition_by": ("a", "A")}, "twice"),
        (
            {"properties": {"delta.SetTransactionRetentionDuration": "interval 1 day"}},
            "lets the record of loaded files expire",
        ),
        ({"identity": RunIdentity(app_id="r", on_rerun=OnRerun.REPLACE)}, "on_rerun='replace'"),
    ],
)
def test_a_request_with_a_fault_is_refused(options, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        request(**options)


@pytest.mark.parametrize(("share", "count"), [(0.29, 29), (None, 50), (0, 0), (1, 100)])
def test_the_limit_of_bad_records_and_files_is_a_decimal_number(share, count):
    assert max_bad_count(request(quarantine="/q", max_bad_share=share), 100) == count


def test_a_run_of_a_few_records_or_files_accepts_ten_bad_ones_by_default():
    assert [max_bad_count(request(quarantine="/q"), count) for count in (1, 10, 15, 21)] == [10, 10, 10, 10]
    assert max_bad_count(request(quarantine="/q", max_bad_share=0.5), 1) == 0
