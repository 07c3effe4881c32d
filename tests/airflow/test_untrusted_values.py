"""Values of a DAG run's conf do not reach a shell, an argument of a process or another folder."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from airflow_provider_deltalite.assets.delta import asset_uri
from airflow_provider_deltalite.lineage.assets import asset_name
from airflow_provider_deltalite.lineage.naming import dataset_name
from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator, DeltaWriteOperator
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from deltalite.errors import InvalidTableAddressError
from tests.airflow.rendering import rendered_task

CHECKOUT = Path(__file__).resolve().parents[2]
SHELL_FUNCTIONS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell", "spawnl", "spawnlp"}
COMMIT_PROGRAM = """
import json, os
request = json.load(open(sys.argv[-1]))
root, run = os.path.realpath(request["table"].removeprefix("file:")), request["identity"]
lines = [
    {"commitInfo": {"timestamp": 9, "operation": "DELETE", "operationMetrics": {}, "readVersion": 0}},
    {"txn": {"appId": run["app_id"], "version": run["txn_version"], "lastUpdated": 9}},
]
with open(os.path.join(root, "_delta_log", "%020d.json" % 1), "x") as file:
    file.write(chr(10).join(map(json.dumps, lines)))
"""


def lines_that_use_a_shell(source: str) -> list[int]:
    """Return the numbers of the lines that pass a text to a shell."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr in SHELL_FUNCTIONS)
            or any(
                keyword.arg == "shell"
                and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
                for keyword in node.keywords
            )
        )
    ]


@pytest.mark.parametrize("package", ["airflow_provider_deltalite", "spark_jobs"])
def test_no_module_uses_a_shell(package):
    files = list((CHECKOUT / package).rglob("*.py"))
    assert files
    assert {str(file): lines for file in files if (lines := lines_that_use_a_shell(file.read_text()))} == {}


@pytest.mark.parametrize("code", ["os.system('ls')", "subprocess.run('ls', shell=True)", "run(a, shell=x)"])
def test_the_search_for_shells_recognizes_a_shell(code):
    assert lines_that_use_a_shell(code) == [1]


def test_a_name_with_shell_syntax_is_an_ordinary_name(spark_submit, context, tmp_path, make_table):
    name = "orders; touch pwned $(touch pwned) `touch pwned`"
    make_table(tmp_path / name).create()
    spark_submit.set_script(COMMIT_PROGRAM)
    task = rendered_task(
        DeltaDeleteOperator,
        table=f"{tmp_path}/{{{{ name }}}}",
        condition="customer = '$(touch pwned)' OR '`touch pwned`' = ''",
        rendered_with={"name": name},
    )
    assert task.execute(context)["version"] == 1
    assert not any("pwned" in argument for argument in spark_submit.argv)
    assert not list(tmp_path.rglob("pwned")) and not Path("pwned").exists()


ADDRESSES_OF_OTHER_FOLDERS = [
    "/lake/../etc",
    "/lake/..",
    "../lake",
    "file:/lake/%2e%2e/etc",
    "s3://bucket/lake/../other",
    "/lake/a\\..\\b",
    "/lake/%252e%252e/etc",
    "/lake/%2E%2e%2Fetc",
    "/lake/{a,../../etc}",
    "/lake/{../etc,b}",
    "/lake/\\.\\./etc",
    "/lake/{x/.,y}./{./,z}../etc",
    "/lake/{./.,y}./etc",
]


@pytest.mark.parametrize("address", ADDRESSES_OF_OTHER_FOLDERS)
def test_no_address_leads_out_of_the_folder_that_the_author_wrote(address, context):
    with pytest.raises(InvalidTableAddressError, match=r"leads to another folder|control"):
        rendered_task(DeltaDeleteOperator, table=address, condition="a")._request()
    for source_format in ("csv", "delta"):
        source = {"format": source_format, "path": address}
        with pytest.raises(InvalidTableAddressError, match="leads to another folder"):
            rendered_task(DeltaWriteOperator, table="/lake/t", source=source)._request()
    with pytest.raises(Exception, match="leads to another folder"):
        DeltaVersionSensor(task_id="wait", table=address, after_version=-1).poke(context)


@pytest.mark.parametrize(
    "options",
    [
        {"path": "/landing/../etc"},
        {"PATH": ".."},
        {"paths": '["/landing/a", "/landing/../etc"]'},
        {"paths": "/landing/a,../etc"},
        {"paths": '["/landing/\\u002e\\u002e/etc"]'},
        {"data": "%2e%2e/etc"},
        {"basePath": "/landing/{x,../etc}"},
        {"dbtable": "/landing/../etc.sqlite"},
        {"url": "jdbc:sqlite:/landing/../etc.db"},
        {"an.option.of.some.connector": "/landing/x/../../etc"},
    ],
)
@pytest.mark.parametrize("is_constant", [True, False])
def test_no_reader_option_leads_out_of_the_folder(options, is_constant):
    """A constant is rejected when the DAG is parsed. A rendered value is rejected when the task runs."""
    rendered_options = options if is_constant else {name: f"{{{{ values['{name}'] }}}}" for name in options}
    with pytest.raises(InvalidTableAddressError, match="leads to another folder"):
        rendered_task(
            DeltaWriteOperator, source={"format": "csv", "options": rendered_options}, rendered_with={"values": options}
        )._request()


@pytest.mark.parametrize("name", ["/landing/../etc", "/landing/%2e%2e/etc", "../etc"])
@pytest.mark.parametrize("query", ["SELECT * FROM csv.`{name}`", "SELECT * FROM csv.`{{{{ name }}}}`"])
def test_no_file_that_a_query_names_leads_out_of_the_folder(name, query):
    source = {"format": "csv", "path": "/in"}
    with pytest.raises(InvalidTableAddressError, match="leads to another folder"):
        rendered_task(
            DeltaWriteOperator, source=source, query=query.format(name=name), rendered_with={"name": name}
        )._request()


def test_options_and_queries_without_a_folder_are_accepted():
    options = {"sep": "..", "dateFormat": "yyyy/MM/dd", "query": "SELECT '/../'", "path": "/in/a..b", "x": "a..b/c"}
    table_options = {"dbtable": "(SELECT 'a/../b') t"}
    for options_of_source in (options, table_options):
        source = {"format": "csv", "options": options_of_source}
        query = "SELECT `a..b`, `..`, '/../' FROM source"
        assert rendered_task(DeltaWriteOperator, source=source, query=query)._request().query == query


def test_dots_in_a_name_are_accepted():
    assert (
        rendered_task(DeltaDeleteOperator, table="/lake/a..b/...", condition="a")._request().table == "/lake/a..b/..."
    )


def test_every_spelling_of_an_address_is_one_table(spark_submit, context, table):
    """The asset, the lineage, the result and the search for an earlier commit treat all spellings as one table."""
    table.create()
    spark_submit.set_script(COMMIT_PROGRAM)
    first_result = rendered_task(DeltaDeleteOperator, table=str(table), condition="a").execute(context)
    spark_submit.set_script("raise SystemExit('submitted a second time')")
    root = str(table)
    for spelling in (f"{root}/", f"file:{root}", f"file://{root}/", root.replace("/lake/", "//lake/./")):
        retry_result = rendered_task(DeltaDeleteOperator, table=spelling, condition="a").execute(context)
        assert (retry_result["table"], retry_result["version"], retry_result["app_id"]) == (
            root,
            1,
            first_result["app_id"],
        )
        assert retry_result["skipped"]
        assert asset_uri(spelling) == f"file://{root}"
        assert asset_name(asset_uri(spelling)) == dataset_name(spelling) == dataset_name(root)
