"""Starts a DAG run by the endpoint of Airflow's REST API that Airflow's UI calls. The call stays inside this process.

The call carries the login of the user. So Airflow checks the user's right, validates the parameters of the DAG,
creates the run, and writes the line in its event log, as for every other run that a person starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import Request

from airflow_provider_deltalite.page.registration import AIRFLOW_APP
from deltalite.inspection.shown_texts import shown_text

_NO_REASON = "Airflow gave no reason. The log of the API server may have it."
# Airflow records the UI as the origin of the run if the request has a `Referer` header, and otherwise the REST API.
_FORWARDED_HEADERS = ("authorization", "cookie", "referer")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStartAnswer:
    """Airflow's answer to a request that starts a DAG run.

    - `status`: the HTTP status of the answer.
    - `run_id`: the id of the new run; empty if Airflow refused the run, or if its answer has no id.
    - `problem`: why there is no `run_id`; empty if there is one.
    """

    status: int
    run_id: str = ""
    problem: str = ""


async def start_run(request: Request, airflow_path: str, dag_id: str, conf: Mapping[str, Any]) -> RunStartAnswer:
    """Start a run of a DAG as the user of a request.

    Args:
        request: the request of the user.
        airflow_path: the path of Airflow's UI, without a slash at the end.
        dag_id: the DAG.
        conf: the configuration of the run.
    """
    transport = httpx.ASGITransport(request.scope[AIRFLOW_APP], raise_app_exceptions=False)
    headers = {name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers}
    async with httpx.AsyncClient(transport=transport, base_url="http://airflow") as client:
        response = await client.post(
            f"{airflow_path}/api/v2/dags/{quote(dag_id, safe='')}/dagRuns",
            json={"logical_date": None, "conf": dict(conf)},
            headers=headers,
        )
    return _answer_in(response)


def _answer_in(response: httpx.Response) -> RunStartAnswer:
    try:
        values = response.json()
    except ValueError:
        values = {}
    match values:
        case {"dag_run_id": str() as run_id} if response.is_success:
            return RunStartAnswer(status=response.status_code, run_id=run_id)
        case {"detail": detail}:
            return RunStartAnswer(status=response.status_code, problem=shown_text(detail, max_length=600))
        case _:
            return RunStartAnswer(status=response.status_code, problem=_NO_REASON)
