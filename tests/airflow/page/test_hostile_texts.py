"""Texts of a table are hostile: no page shows them as markup, as a link, or with a secret."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from airflow_provider_deltalite.page.database import Attempt, TaskResult
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights, task_metadata
from tests.unit.builders import create

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "javascript:alert(1)",
    "{{ 7919 * 7907 }}{% raw %}",
    "</code></pre><h1>planted",
)
SECRET = "planted-secret-value"
# The names of elements that the templates use.
# fmt: off
ELEMENTS = {
    "a", "article", "body", "button", "code", "dd", "details", "div", "dl", "dt", "figcaption", "figure", "form",
    "h1", "h2", "h3", "head", "header", "html", "input", "label", "li", "link", "main", "meta", "nav", "ol",
    "option", "output", "p", "pre", "rect", "script", "section", "select", "span", "strong", "summary", "svg",
    "table", "tbody", "td", "th", "thead", "time", "title", "tr", "ul",
}
# fmt: on


class Reader(HTMLParser):
    """Collects the elements of a page and their attributes, as a browser would."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


def check_is_harmless(html: str) -> None:
    """Check that a page has only elements, attributes, links and scripts of the templates."""
    reader = Reader()
    reader.feed(html)
    for tag, attributes in reader.elements:
        assert tag in ELEMENTS, f"<{tag}> {attributes}"
        assert not [name for name in attributes if name.startswith("on") or name == "style"], attributes
        for name in ("href", "src", "action"):
            if attributes.get(name) is not None:
                assert re.match(r"/airflow/(deltalite/|dags/|$)|#\w+$", attributes[name]), attributes
        if tag == "script":
            assert re.fullmatch(r"/airflow/deltalite/static/(uplot/uPlot\.iife\.min|\w+)\.js", attributes["src"])
    assert re.findall(r"<script[^>]*>[^<]+</script>", html) == []
    assert str(7919 * 7907) not in html


def hostile_commit(payload: str) -> list[dict]:
    """The actions of a table with the payload in every text that a writer chooses."""
    fields = [
        {"name": f"c {payload}", "type": "string", "nullable": True, "metadata": {"comment": payload}},
        {
            "name": "d",
            "type": "string",
            "nullable": True,
            "metadata": {"CURRENT_DEFAULT": f"'{payload}'", "delta.invariants": payload},
        },
    ]
    audit = dict.fromkeys(("name", "kind", "on", "level", "threshold", "error", "measured"), payload)
    flow = {"flow": payload, "sourceTableId": payload, "afterVersion": 1, "toVersion": 2}
    return [
        {
            "commitInfo": {
                "timestamp": 1,
                "operation": payload,
                "operationParameters": {
                    payload: payload,
                    "audits": json.dumps([{**audit, "passed": False}]),
                    "sourceVersions": json.dumps({payload + "2": 3}),
                    "flows": json.dumps({payload: flow}),
                    "password": SECRET,
                    "predicate": f"token='{SECRET}'",
                },
                "operationMetrics": {payload: payload, "numOutputRows": payload},
                "userMetadata": payload,
                "userName": payload,
                "engineInfo": payload,
                "isolationLevel": payload,
            }
        },
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [payload]}},
        {
            "metaData": {
                "id": payload,
                "name": payload,
                "description": payload,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [f"c {payload}", "d"],
                "configuration": {payload: payload, "delta.x": payload, "my.password": SECRET},
            }
        },
        *(
            {
                "add": {
                    "path": f"{number}{payload}",
                    "size": 1,
                    "modificationTime": 0,
                    "partitionValues": {f"c {payload}": f"{number}{payload}", "d": f"{payload}{number}"},
                    "dataChange": True,
                }
            }
            for number in (2, 1)
        ),
    ]


def write_log(root, *commits) -> None:
    (root / "_delta_log").mkdir(parents=True)
    for version, actions in enumerate(commits):
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (root / "_delta_log" / f"{version:020}.json").write_text(text)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_text_of_a_table_becomes_markup(delta_page, tmp_path, payload):
    name = payload.replace("/", "_")  # Airflow allows no slash in the id of a DAG
    root = tmp_path / ("t" if "{" in payload else f"t{name}")  # an address has no template
    commit_info, *other_actions = hostile_commit(payload)
    run = {"dag_id": payload, "task_id": payload, "run_id": payload}
    by_task = {"commitInfo": {**commit_info["commitInfo"], "userMetadata": task_metadata(**run)}}
    write_log(
        root, [commit_info, *other_actions], [by_task, {"add": {**other_actions[-1]["add"], "path": f"3{payload}"}}]
    )
    delta_page.users["ann"] = Rights(dag_ids={payload, name})
    delta_page.database.runs.add((payload, payload))
    key = delta_page.add_asset(
        root, writer=(name, name), consumers=(payload,), watched_table=str(root), conn_id=payload
    )
    instance = (name, payload, name, -1)
    delta_page.database.attempts_of[instance] = [Attempt(try_number=1, state=payload, start=None, end=None)]
    value = {
        "table": payload,
        "operation": payload,
        "version": 1,
        "metrics": {payload: payload},
        "phases": {payload: 1, "write": payload, "plan": 1},
        "skip_reason": payload,
        "audits": [{"name": payload, "passed": False}],
    }
    delta_page.database.results_of[name, payload] = [TaskResult(task_id=name, map_index=-1, value=value)]
    dag, run = delta_page.encode(name), delta_page.encode(payload)
    pages = [
        delta_page.get(path)
        for path in (
            "/lake",
            f"/lake?q={dag}",
            f"/tables/{key}",
            f"/tables/{key}/versions/0",
            f"/tables/{key}/versions/1",
            f"/task/{dag}/{dag}/-1/{run}",
            f"/dag/{dag}",
            f"/dag-run/{dag}/{run}",
        )
    ]
    for html in pages:
        check_is_harmless(html)
        assert SECRET not in html
    assert "***" in pages[2]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_an_error_text_does_not_become_markup(delta_page, payload):
    def refuse(address, _conn_id):
        raise OSError(f"\u202e\x1b{payload} password='{SECRET}'")

    delta_page.open_table = refuse
    key = delta_page.add_asset("s3://lake/t")
    for html in (delta_page.get("/lake"), delta_page.get(f"/tables/{key}")):
        check_is_harmless(html)
        assert "OSError" in html and SECRET not in html
        assert "\\u202e" in html and not {"\u202e", "\x1b"} & set(html)


def test_an_error_of_the_commits_is_shown_with_escapes(delta_page, monkeypatch, tmp_path):
    def refuse(*_args, **_options):
        raise OSError("\u202e\x1b")

    create(LocalLogStore(str(tmp_path / "t")))
    monkeypatch.setattr("airflow_provider_deltalite.page.reading.commit_entries", refuse)
    html = delta_page.get(f"/tables/{delta_page.add_asset(tmp_path / 't')}")
    assert "OSError: \\u202e\\x1b" in html and not {"\u202e", "\x1b"} & set(html)


def test_control_characters_and_surrogates_are_shown_as_escapes(delta_page, tmp_path):
    root = tmp_path / "t"
    create(LocalLogStore(str(root)), description="a\u202eb\u0000c\ud800d\x1b[31m")
    html = delta_page.get(f"/tables/{delta_page.add_asset(root)}")
    assert "a\\u202eb\\x00c\\ud800d\\x1b[31m" in html


def test_huge_texts_are_cut(delta_page, tmp_path):
    root = tmp_path / "t"
    huge = "x" * 300_000
    commit_info, *other_actions = hostile_commit("x")
    other_actions[1]["metaData"]["configuration"] = {f"{huge}{number}": huge for number in range(20)}
    commit_info["commitInfo"] |= {"operation": huge, "userMetadata": task_metadata(dag_id=huge), "engineInfo": huge}
    write_log(root, [commit_info, *other_actions])
    key = delta_page.add_asset(root)
    for path in ("/lake", f"/tables/{key}", f"/tables/{key}/versions/0"):
        assert len(delta_page.get(path)) < 40_000


def test_every_answer_forbids_inline_scripts_and_foreign_frames(delta_page):
    for path, user in (("/lake", "ann"), ("/lake", None), ("/tables/x", "ann"), ("/nothing", "ann"),
                       ("/static/page.js", None)):  # fmt: skip
        headers = delta_page.answer(path, user=user).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'self'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert delta_page.answer("/lake").headers["cache-control"] == "no-store"


def test_a_method_other_than_get_is_an_invalid_request_and_no_failure_of_the_page(delta_page):
    answer = delta_page.client.post("/airflow/deltalite/lake", headers={"X-User": "ann"})
    assert answer.status_code == 405
    assert "This address is not valid" in answer.text


def test_an_unexpected_error_shows_no_details(delta_page, monkeypatch):
    monkeypatch.setattr(delta_page.database, "assets", lambda: 1 / 0)
    text = delta_page.get("/lake", status=500)
    assert "The page failed" in text and "ZeroDivision" not in text
