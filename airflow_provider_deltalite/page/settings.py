"""The settings of the page from `airflow.cfg`, parsed.

An invalid setting must not take the page down, so a page shows the problems of the settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow.providers.common.compat.sdk import conf

_SECTION = "deltalite"
_DEFAULT_SECONDS = 10.0
_MAX_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """The settings.

    - `roots`: addresses and patterns of tables.
    - `storage_conn_ids`: connections by the beginnings of addresses.
    - `timeout_seconds`: how long a page waits for storage.
    - `shows_rows`: whether the page of a version can show rows.
    - `maintenance_dag`: the DAG that maintains one table; empty without one.
    - `problems`: sentences about invalid settings.
    """

    roots: tuple[str, ...] = ()
    storage_conn_ids: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = _DEFAULT_SECONDS
    shows_rows: bool = False
    maintenance_dag: str = ""
    problems: tuple[str, ...] = ()


def read_settings() -> PageSettings:
    """Return the settings of this Airflow."""
    problems: list[str] = []
    roots = re.split(r"[\s,]+(?![^{]*\})", (conf.get(_SECTION, "ui_tables", fallback="") or "").strip())
    return PageSettings(
        roots=tuple(filter(None, roots)),
        storage_conn_ids=_conn_ids(problems),
        timeout_seconds=_timeout_seconds(problems),
        shows_rows=_shows_rows(problems),
        maintenance_dag=(conf.get(_SECTION, "ui_maintenance_dag", fallback="") or "").strip(),
        problems=tuple(problems),
    )


def _conn_ids(problems: list[str]) -> dict[str, str]:
    text = (conf.get(_SECTION, "ui_storage_conn_ids", fallback="") or "").strip()
    if not text:
        return {}
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        problems.append(
            "[deltalite] ui_storage_conn_ids is not a JSON object of connection ids, so tables are read without them. "
            'Write it as {"s3://lake": "aws_lake"}.'
        )
        return {}
    return values


def _shows_rows(problems: list[str]) -> bool:
    try:
        return bool(conf.getboolean(_SECTION, "ui_preview", fallback=False))
    except Exception:  # noqa: BLE001  Airflow's class for an invalid boolean differs between versions
        problems.append("[deltalite] ui_preview is not a boolean, so pages show no rows. Write True or False.")
        return False


def _timeout_seconds(problems: list[str]) -> float:
    text = conf.get(_SECTION, "ui_timeout", fallback=None) or str(_DEFAULT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _MAX_SECONDS:
        problems.append(
            f"[deltalite] ui_timeout is not a number of seconds up to {_MAX_SECONDS:g}, so pages wait "
            f"{_DEFAULT_SECONDS:g} s for storage."
        )
        return _DEFAULT_SECONDS
    return seconds
