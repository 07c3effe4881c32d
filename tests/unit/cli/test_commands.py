"""The commands of `deltalite` that show a table: the text for people, and the JSON for programs."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.cli.main import COMMANDS, main
from deltalite.cli.values import cell, json_text, printable
from deltalite.columnar.predicates.where import parse_where
from deltalite.errors import (
    ChangeFeedUnavailableError,
    InvalidRequestError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    UnsupportedStorageError,
    VersionNotFoundError,
)
from deltalite.protocol.actions import Protocol, SetTransaction
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from deltalite.results import AuditResult, FlowRange
from deltalite.storage.local import LocalLogStore
from deltalite.txn.audits import audits_parameter
from deltalite.txn.flows import FlowId, flows_parameter
from tests.support.valid_table import create_valid_table, path_of
from tests.unit.builders import PROTOCOL, add, commit_actions, create, metadata, struct


@pytest.fixture(scope="module")
def valid_table(tmp_path_factory):
    return create_valid_table(tmp_path_factory.mktemp("valid") / "a b=ü%")


@pytest.fixture
def run_text(capsys):
    """A function that runs a successful command and returns the lines of its output."""

    def run(*argv):
        code = main([str(part) for part in argv])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return [line.rstrip() for line in out.splitlines()]

    return run


@pytest.fixture
def run_json(run_text):
    """A function that runs a successful command and returns the objects of its JSON output."""
    return lambda *argv: [json.loads(line) for line in run_text(*argv, "--json")]


@pytest.fixture
def run_failing(capsys):
    """A function that runs a failing command and returns its exit code and its line on standard error."""

    def run(*argv):
        code = main([str(part) for part in argv])
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1, (out, err)
        return code, err

    return run


def test_history_lists_the_commits_with_the_newest_first(valid_table, run_text, run_json):
    entries = run_json("history", valid_table.root)
    assert [e["version"] for e in entries] == [5, 4, 3, 2, 1, 0]
    assert {"operation", "operationParameters", "engineInfo", "timestamp"} <= entries[0].keys()
    assert datetime.fromisoformat(entries[0]["timestamp"]).tzinfo is not None
    assert [e["version"] for e in run_json("history", valid_table.root, "--version", 3, "-n", 2)] == [3, 2]
    heading, _, newest, *_ = run_text("history", valid_table.root)
    assert heading.split() == ["version", "time", "operation", "parameters", "metrics", "by"]
    assert newest.split()[0] == "5" and "WRITE" in newest and "mode=Append" in newest


TASK_ATTEMPT = {
    "dag_id": "orders",
    "task_id": "load",
    "run_id": "scheduled__2026-01-01",
    "map_index": 3,
    "try_number": 2,
}
# Each case has fields of commitInfo, the text output and the JSON output.
WRITERS = [
    (
        {"engineInfo": "deltalite/0.1.0", "userMetadata": json.dumps(TASK_ATTEMPT)},
        "orders.load[3] scheduled__2026-01-01 try 2",
        {"dagId": "orders", "taskId": "load", "runId": "scheduled__2026-01-01", "mapIndex": 3, "tryNumber": 2},
    ),
    (
        {
            "engineInfo": "deltalite/0.1.0",
            "userMetadata": json.dumps({**TASK_ATTEMPT, "map_index": -1, "run_id": None}),
        },
        "orders.load try 2",
        {"dagId": "orders", "taskId": "load", "runId": None, "mapIndex": -1, "tryNumber": 2},
    ),
    (
        {"engineInfo": "Apache-Spark/3.5 Delta-Lake/3.2", "userName": "alice"},
        "alice, Apache-Spark/3.5 Delta-Lake/3.2",
        None,
    ),
    ({"engineInfo": "delta-rs:1.0", "userMetadata": "nightly"}, "delta-rs:1.0", None),
    ({"engineInfo": "x", "userMetadata": '{"dag_id": 1, "task_id": "load"}'}, "x", None),
    ({"engineInfo": "x", "userMetadata": "[" * 100_000}, "x", None),
    ({"engineInfo": "x", "userMetadata": {"dag_id": "orders", "task_id": "load"}}, "x", None),
    ({"engineInfo": 7, "userName": None}, "", None),
]


@pytest.mark.parametrize(("info", "text", "run"), WRITERS)
def test_history_names_the_task_or_the_user_and_engine_of_a_commit(tmp_path, run_text, run_json, info, text, run):
    create(LocalLogStore(str(tmp_path)))
    (commit,) = (tmp_path / "_delta_log").glob("*0.json")
    _, *other_lines = commit.read_text("utf-8").splitlines()
    provenance = json.dumps({"commitInfo": {"timestamp": 0, "operation": "WRITE", **info}})
    commit.write_text("\n".join([provenance, *other_lines, ""]), "utf-8")
    (entry,) = run_json("history", tmp_path)
    assert entry["run"] == run
    assert {**entry, **info} == entry  # the fields of commitInfo keep their names and values
    *_, newest = run_text("history", tmp_path)
    assert newest.split("WRITE", 1)[1].split() == text.split()


def test_text_output_is_limited_and_json_output_is_complete(tmp_path, run_text, run_json):
    store = LocalLogStore(str(tmp_path))
    commit_actions(store, PROTOCOL, metadata(), read_version=-1)
    for version in range(1, 25):
        commit_actions(store, add(f"f{version}"))
    assert len(run_text("history", tmp_path)) == 2 + 20
    assert len(run_json("history", tmp_path)) == 25
    assert len(run_text("history", tmp_path, "--limit", 0)) == 2


def test_detail_has_the_field_names_of_spark(valid_table, run_text, run_json):
    [detail] = run_json("detail", valid_table.root)
    assert {"version": 5, "format": "delta", "name": "orders", "numFiles": 2}.items() <= detail.items()
    assert (detail["partitionColumns"], detail["location"]) == (["day"], valid_table.root)
    assert {"minReaderVersion": 3, "minWriterVersion": 7}.items() <= detail.items()
    assert "deletionVectors" in detail["tableFeatures"]
    output_lines = run_text("detail", valid_table.root)
    assert "numFiles          2" in output_lines and "partitionColumns  day" in output_lines


def test_schema_shows_members_of_structs_and_column_rules(tmp_path, run_text, run_json):
    members = StructType((StructField("city", PrimitiveType("string")),))
    schema = StructType(
        (
            StructField("id", PrimitiveType("long"), nullable=False, metadata={"comment": "the key"}),
            StructField("address", members),
            StructField("tags", MapType(PrimitiveType("string"), ArrayType(PrimitiveType("integer")))),
            StructField("day", PrimitiveType("date"), metadata={"delta.generationExpression": "CAST(t AS DATE)"}),
        )
    )
    commit_actions(
        LocalLogStore(str(tmp_path)), PROTOCOL, metadata(schema=schema, partition_columns=("day",)), read_version=-1
    )
    [output] = run_json("schema", tmp_path)
    assert (output["version"], output["partitionColumns"]) == (0, ["day"])
    assert [f["name"] for f in output["schema"]["fields"]] == ["id", "address", "tags", "day"]
    assert [line.split() for line in run_text("schema", tmp_path)[2:]] == [
        ["id", "bigint", "not", "null", "the", "key"],
        ["address", "struct"],
        ["city", "string"],
        ["tags", "map<string,array<int>>"],
        ["day", "date", "1", "generated:", "CAST(t", "AS", "DATE)"],
    ]


def test_files_have_sizes_statistics_and_vectors(valid_table, run_text, run_json):
    files = {f["path"].rpartition("/")[2]: f for f in run_json("files", valid_table.root)}
    assert files.keys() == {"b.parquet", "c.parquet"}
    file = files["b.parquet"]
    assert (file["numRecords"], file["deletionVector"]["cardinality"]) == (3, 1)
    assert file["partitionValues"] == {"day": "2026-01-01"}
    assert file["sizeInBytes"] == path_of(valid_table, "day=2026-01-01/b.parquet").stat().st_size
    assert file["stats"]["minValues"] == {"id": 3, "name": "u"}
    assert files["c.parquet"]["deletionVector"] is None
    assert len(run_json("files", valid_table.root, "-n", 1)) == 1
    output_lines = run_text("files", valid_table.root, "--limit", 1)
    assert output_lines[-1].startswith("2 files of ") and output_lines[-1].endswith("1 of them shown (--limit)")


def test_head_shows_rows_of_a_version_with_columns_and_conditions(valid_table, run_text, run_json):
    assert sorted(row["id"] for row in run_json("head", valid_table.root)) == [4, 5, 6, 7]
    assert sorted(row["id"] for row in run_json("head", valid_table.root, "--version", 1)) == [1, 2, 3, 4, 5]
    assert run_json("head", f"{valid_table.root}@v0", "--columns", "NAME, id", "--where", "id = 2") == [
        {"name": None, "id": 2}
    ]
    two_conditions = ["--where", "id >= 5", "--where", "day = 2026-01-01"]
    assert sorted(row["id"] for row in run_json("head", valid_table.root, *two_conditions)) == [5, 6, 7]
    assert run_json("head", valid_table.root, "--where", "day = 2026-01-02") == []
    output_lines = run_text("head", f"{valid_table.root}@v0")
    assert output_lines[0].split() == ["id", "name", "day"]
    assert [line.split() for line in output_lines[2:]] == [["1", "x", "2026-01-01"], ["2", "null", "2026-01-01"]]
    assert run_text("head", valid_table.root, "-n", 2)[-1] == "2 rows shown; there may be more (--limit)"


def test_head_is_limited_in_json_too(tmp_path, run_json):
    pq.write_table(pa.table({"id": range(50)}), tmp_path / "f.parquet")
    commit_actions(
        LocalLogStore(str(tmp_path)), PROTOCOL, metadata(schema=struct(id="long")), add("f.parquet"), read_version=-1
    )
    assert len(run_json("head", tmp_path)) == 20
    assert len(run_json("head", tmp_path, "-n", 30)) == 30


def test_the_command_changes_shows_rows_of_the_change_data_feed(golden, run_json, run_text):
    table = golden / "tables" / "delta-rs" / "cdf-table"
    rows = run_json("changes", table, 1)
    assert {row["_change_type"] for row in rows} <= {"insert", "update_preimage", "update_postimage", "delete"}
    assert {row["_commit_version"] for row in rows} == {1, 2, 3}
    assert {row["_commit_version"] for row in run_json("changes", table, 1, 2)} == {1, 2}
    assert len(run_text("changes", table, 0, "-n", 3)) == 2 + 3 + 2


def test_diff_shows_the_differences_between_two_versions(valid_table, run_text, run_json):
    [differences] = run_json("diff", valid_table.root, 1, 4, "--files")
    files = differences["files"]
    assert (files["added"], files["removed"], files["kept"], files["deletionVectorsChanged"]) == (2, 2, 0, 1)
    assert files["addedPaths"] == ["day=2026-01-01/b.parquet", "day=2026-01-01/c.parquet"]
    assert differences["rows"] == {"before": 5, "after": 4, "inAddedFiles": 4, "inRemovedFiles": 5}
    assert (differences["isEmpty"], differences["schema"], differences["properties"]) == (False, [], [])
    [no_differences] = run_json("diff", valid_table.root, 4, 5)
    assert no_differences["isEmpty"] and "addedPaths" not in no_differences["files"]
    output_lines = run_text("diff", valid_table.root, 1, 4, "--files")
    assert output_lines[0] == "version 1 -> version 4" and "rows   5 -> 4 (+4 -5 in these files)" in output_lines
    assert "+ day=2026-01-01/c.parquet" in output_lines and "- day=2026-01-01/a.parquet" in output_lines
    assert run_text("diff", valid_table.root, 4, 5)[-1] == "no differences"


def table_of_every_type():
    return pa.table(
        {
            "long": pa.array([2**62]),
            "double": pa.array([float("nan")]),
            "decimal": pa.array([Decimal("1234567890123456789.50")], pa.decimal128(21, 2)),
            "binary": pa.array([b"\x00\xff"]),
            "boolean": pa.array([True]),
            "date": pa.array([date(2026, 1, 2)]),
            "moment": pa.array([datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=UTC)]),
            "wall": pa.array([datetime(2026, 1, 2, 3, 4, 5)]),  # noqa: DTZ001
            "late": pa.array([400_000_000_000_000_000], pa.timestamp("us", "UTC")),
            "list": pa.array([[1, None]]),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
            "pairs": pa.array([[(1, "v")]], pa.map_(pa.int64(), pa.string())),
            "struct": pa.array([{"a": {"b": "x\x1b[31m"}}]),
            "nothing": pa.array([None], pa.string()),
        }
    )


def test_values_of_every_type_are_lossless_in_json_and_harmless_in_text(tmp_path, run_text, run_json):
    values = table_of_every_type()
    pq.write_table(values, tmp_path / "f.parquet")
    kinds = {"moment": "timestamp", "wall": "timestamp_ntz", "late": "timestamp", "nothing": "string"}
    plain_fields = [
        StructField(name, PrimitiveType(kinds.get(name, name)))
        for name in ("long", "double", "binary", "boolean", "date", *kinds)
    ]
    text, number = PrimitiveType("string"), PrimitiveType("long")
    inner = StructType((StructField("a", StructType((StructField("b", text),))),))
    nested = [
        StructField("decimal", DecimalType(21, 2)),
        StructField("list", ArrayType(number)),
        StructField("map", MapType(text, number)),
        StructField("pairs", MapType(number, text)),
        StructField("struct", inner),
    ]
    schema = StructType((*plain_fields, *nested))
    store = LocalLogStore(str(tmp_path))
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=("timestampNtz",),
                        writer_features=("timestampNtz",))  # fmt: skip
    commit_actions(store, protocol, metadata(schema=schema), add("f.parquet"), read_version=-1)
    [row] = run_json("head", tmp_path)
    assert row == {
        "long": 2**62, "double": "NaN", "binary": "AP8=", "boolean": True, "date": "2026-01-02",
        "moment": "2026-01-02T03:04:05.6Z", "wall": "2026-01-02T03:04:05", "late": "14645-06-30T15:06:40Z",
        "nothing": None, "decimal": "1234567890123456789.50", "list": [1, None], "map": {"k": 1},
        "pairs": [{"key": 1, "value": "v"}], "struct": {"a": {"b": "x\x1b[31m"}},
    }  # fmt: skip
    output = "\n".join(run_text("head", tmp_path))
    assert "\x1b" not in output and "\\u001b[31m" in output


def test_control_characters_are_escaped():
    assert printable("ü \x1b[31m\r\u202e[b]x[/b]") == "ü \\x1b[31m\\r\\u202e[b]x[/b]"
    assert (cell(None), cell("a\x1bb")) == ("null", "a\\x1bb")
    assert cell({"a": Decimal("1.50")}) == '{"a": "1.50"}'


@pytest.mark.parametrize(
    ("argv", "error", "message"),
    [
        (["head", "{t}", "--version", "9"], VersionNotFoundError, "its newest version is 5"),
        (["head", "{t}@v1", "--version", "2"], InvalidRequestError, "more than one version"),
        (["head", "{t}", "--timestamp", "yesterday"], InvalidRequestError, "Invalid time 'yesterday'"),
        (["detail", "{t}", "--timestamp", "1999-01-01"], TimestampOutOfRangeError, "no version"),
        (["head", "{t}", "--columns", "nowhere"], InvalidRequestError, "no column 'nowhere'"),
        (["history", "{t}", "-n", "-1"], InvalidRequestError, "--limit is -1"),
        (["diff", "{t}@v1", "0", "1"], InvalidRequestError, "names a version"),
        (["diff", "{t}", "0", "9"], VersionNotFoundError, "no version 9"),
        (["changes", "{t}", "0"], ChangeFeedUnavailableError, "did not record"),
        (["files", "{t}/nowhere"], TableNotFoundError, "no Delta table"),
        (["files", "nosuch://a/b"], UnsupportedStorageError, "nosuch"),
        (["detail", "{t}", "--storage-option", "secret"], InvalidRequestError, "KEY=VALUE"),
        (["verify", "{t}@v1"], InvalidRequestError, "names a version"),
    ],
)
def test_an_error_is_one_line_with_its_class_which_decides_the_exit_code(
    valid_table, run_failing, argv, error, message
):
    arguments = [part.replace("{t}", valid_table.root) for part in argv]
    code, line = run_failing(*arguments)
    assert code == error.exit_code
    assert line.startswith(f"deltalite: {error.__name__}: ") and message in line and "secret" not in line
    code, line = run_failing(*arguments, "--json")
    reported = json.loads(line)
    assert (reported["error"], reported["exitCode"], code) == (error.__name__, error.exit_code, error.exit_code)
    assert message in reported["problem"] and reported["remedy"]


CONDITIONS = [
    ("id = 5", [5]), ("id==5", [5]), ("id != 5", [4, 6, 7]), ("id <> 5", [4, 6, 7]), ("id<5", [4]), ("id >= 6", [6, 7]),
    ("id in (4, 7)", [4, 7]), ("ID NOT IN (4,7)", [5, 6]), ("name = 'v'", [4]), ('name = "w"', [5]), ("name=v", [4]),
    ("name is null", []), ("name IS  NOT NULL", [4, 5, 6, 7]), ("name in ('v', 'a,b''c')", [4]), ("`id` = 4", [4]),
    ("day > 2025-12-31", [4, 5, 6, 7]), ("day = '2026-01-01'", [4, 5, 6, 7]), ("name = ''", []),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "ids"), CONDITIONS)
def test_a_condition_is_parsed_by_the_type_of_its_column(valid_table, run_json, condition, ids):
    assert sorted(row["id"] for row in run_json("head", valid_table.root, "--where", condition)) == ids


def test_lone_surrogates_are_escaped_in_json():
    assert json_text({"ü": "\ud800"}) == '{"\\u00fc": "\\ud800"}'
    assert json_text({"ü": 1}) == '{"ü": 1}' and json_text({"ü": 1}, "ascii") == '{"\\u00fc": 1}'


def test_quotes_within_quotes_are_doubled_and_an_empty_text_is_a_value():
    schema = struct(name="string")
    assert parse_where(["name in ('it''s, so', \"b\", c d)"], schema) == [("name", "in", ["it's, so", "b", "c d"])]
    assert parse_where(["name != 'it''s'", "name = ''"], schema) == [("name", "!=", "it's"), ("name", "=", "")]
    assert parse_where([], schema) is None


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("id", "Invalid condition"), ("", "Invalid condition"), ("id = x", "of type bigint"), ("id =", "no value"),
        ("nowhere = 1", "no column 'nowhere'"), ("id in 4", "contains no list in parentheses"),
        ("id is null 4", "contains text after"),
        ("day = 2026-13-01", "of type date"), ("id in (4, 'x)", "Invalid list"), ("1 = 1 or id = 4", "no column '1'"),
    ],
)  # fmt: skip
def test_the_error_names_an_invalid_condition(valid_table, run_failing, condition, message):
    code, line = run_failing("head", valid_table.root, "--where", condition)
    assert code == InvalidRequestError.exit_code and message in line


def test_tables_on_any_fsspec_storage_are_readable(valid_table, run_json):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(valid_table.root, "/bucket/orders", recursive=True)
    address = "memory://bucket/orders"
    try:
        assert sorted(row["id"] for row in run_json("head", address)) == [4, 5, 6, 7]
        [report] = run_json("verify", address)
        assert (report["ok"], report["readable"], report["table"]) == (True, [[0, 5]], address)
        memory.rm("/bucket/orders/day=2026-01-01/c.parquet")
        code = main(["verify", address])
        assert code == 3
    finally:
        memory.rm("/bucket", recursive=True)


def test_every_command_has_a_help_text(capsys):
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    for command in COMMANDS:
        assert command.name in help_text
        assert main([command.name, "--help"]) == 0
        assert "--json" in capsys.readouterr().out


def test_history_shows_the_times_that_time_travel_uses(valid_table, run_json):
    times_by_version = {e["version"]: e["timestamp"] for e in run_json("history", valid_table.root)}
    [detail] = run_json("detail", valid_table.root, "--timestamp", times_by_version[2])
    assert detail["version"] == 2


def flow_table(root):
    """A table with two flows, one of them reset. The last commit has loaded versions 4 and 5 of a source."""
    orders = FlowId(name="orders", source_table_id="id-1")
    reset_flow = FlowId(name="s3://lake/old", source_table_id="id-2")
    store = create(LocalLogStore(str(root)), add("f0"))
    commit_actions(store, SetTransaction(app_id=reset_flow.app_id, version=-1, last_updated_ms=None))
    ranges = {"source": FlowRange(flow="orders", source_table_id="id-1", after_version=3, to_version=5)}
    txn = SetTransaction(app_id=orders.app_id, version=5, last_updated_ms=1_772_366_400_000)
    commit_actions(store, add("f1"), txn, parameters={"mode": "Append", "flows": flows_parameter(ranges)})
    return root


def test_the_command_flows_shows_offsets_and_the_operator_that_resets_them(tmp_path, run_text, run_json):
    table = flow_table(tmp_path / "t")
    assert run_json("flows", table) == [
        {"flow": "orders", "sourceTableId": "id-1", "version": 5, "lastUpdated": "2026-03-01T12:00:00Z"},
        {"flow": "s3://lake/old", "sourceTableId": "id-2", "version": None, "lastUpdated": None},
    ]
    assert run_json("flows", table, "--version", 0) == []
    lines = run_text("flows", table)
    assert any("orders" in line and "5" in line and "2026-03-01 12:00:00Z" in line for line in lines)
    assert any("nothing loaded" in line for line in lines)
    assert lines[-1] == f"    DeltaTableOperator(task_id='reset', table='{table}', reset_flows={{'orders': None}})"


def test_history_shows_the_results_of_audits(tmp_path, run_text, run_json):
    values = {"kind": "rows", "on": "new_rows", "threshold": "max_rows=0"}
    audits = [
        AuditResult(name="a", level="fail", passed=True, measured=0, **values),
        AuditResult(name="b", level="warn", passed=False, measured=3, rows=9, **values),
    ]
    store = create(LocalLogStore(str(tmp_path / "t")), add("f0"))
    commit_actions(store, add("f1"), parameters={"mode": "Append", "audits": audits_parameter(audits)})
    newest, oldest = run_json("history", tmp_path / "t")
    assert [(audit["name"], audit["passed"]) for audit in newest["audits"]] == [("a", True), ("b", False)]
    assert "audits" not in oldest
    text = " ".join(run_text("history", tmp_path / "t", "-n", 1))
    assert "mode=Append audits: 1 passed; did not pass: 'b' (rows on new_rows): measured 3 of 9 rows" in text


def test_history_shows_the_loaded_versions(tmp_path, run_text, run_json):
    table = flow_table(tmp_path / "t")
    newest, *older = run_json("history", table)
    assert newest["flows"] == [
        {"view": "source", "flow": "orders", "sourceTableId": "id-1", "afterVersion": 3, "toVersion": 5}
    ]
    assert all("flows" not in entry for entry in older)
    text = " ".join(run_text("history", table, "-n", 1))
    assert "flow 'orders' (source table id-1): versions 4 to 5 mode=Append" in text
