"""The conventions of Airflow's providers, checked for all modules of this provider."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.triggers.base import BaseEventTrigger, BaseTrigger

import airflow_provider_deltalite
from airflow_provider_deltalite.get_provider_info import get_provider_info
from airflow_provider_deltalite.operators import delta as operators
from deltalite.conditions import CommitCondition, LogPosition

CHECKOUT = Path(__file__).resolve().parents[2]
PROVIDER_INFO = get_provider_info()
KINDS = ("operators", "sensors", "hooks", "triggers")

OPERATORS = {
    name: member
    for name, member in vars(operators).items()
    if inspect.isclass(member) and issubclass(member, SparkSubmitOperator) and name in operators.__all__
}


def modules_in_provider_info(kind: str) -> list[str]:
    return [module for entry in PROVIDER_INFO[kind] for module in entry["python-modules"]]


def public_modules(kind: str) -> set[str]:
    package = import_module(f"airflow_provider_deltalite.{kind}")
    return {
        f"{package.__name__}.{module.name}"
        for module in iter_modules(package.__path__)
        if not module.name.startswith("_")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_provider_info_lists_every_public_module_and_no_other(kind):
    assert set(modules_in_provider_info(kind)) == public_modules(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_each_entry_belongs_to_a_listed_integration(kind):
    integrations = {integration["integration-name"] for integration in PROVIDER_INFO["integrations"]}
    assert {entry["integration-name"] for entry in PROVIDER_INFO[kind]} <= integrations


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_an_operator_has_every_template_field_of_the_spark_provider_and_no_field_twice(name):
    fields = OPERATORS[name].template_fields
    assert set(SparkSubmitOperator.template_fields) <= set(fields)
    assert sorted(fields) == sorted(set(fields))
    assert set(OPERATORS[name].template_fields_renderers) <= set(fields)


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_the_job_of_an_operator_parses_its_request(name):
    """The script names the command and the request class as texts, so neither a linter nor mypy checks them."""
    script = CHECKOUT / "spark_jobs" / "deltalite" / "jobs" / f"{OPERATORS[name].job}.py"
    paths = re.findall(r'"(deltalite[\w.]*):(\w+)"', script.read_text("utf-8"))
    command, request_class = (getattr(import_module(module), member) for module, member in paths)
    assert callable(command)
    assert request_class is OPERATORS[name].request_class


def test_there_are_operators():
    assert len(OPERATORS) > 5


# --- triggers ---

# An argument for each parameter of any trigger. Add each new parameter without a default here.
ARGUMENTS = {
    "table": "s3://lake/orders",
    "after_version": 3,
    "condition": CommitCondition(operations=["WRITE"], partition={"day": None}, app_id="a").as_dict(),
    "place": LogPosition(version=3, commit_digest="x").as_dict(),
    "poke_interval": 7.5,
    "operations": ["MERGE", "WRITE"],
    "partition": {"b": "1", "a": None},
    "exclude_app_ids": ["x"],
    "storage_conn_id": "lake",
    "conn_id": "spark_yarn",
    "driver_id": "application_1700000000000_0001",
    "poll_interval": 7.5,
}
TRIGGERS = {
    f"{module}.{name}": member
    for module in modules_in_provider_info("triggers")
    for name, member in vars(import_module(module)).items()
    if inspect.isclass(member)
    and issubclass(member, BaseTrigger)
    and member.__module__.startswith(airflow_provider_deltalite.__name__)
}


def make_trigger(trigger_class: type[BaseTrigger]) -> BaseTrigger:
    """Create a trigger with those of `ARGUMENTS` that it has as parameters."""
    parameters = inspect.signature(trigger_class.__init__).parameters
    return trigger_class(**{name: value for name, value in ARGUMENTS.items() if name in parameters})


def test_there_are_triggers():
    assert TRIGGERS


@pytest.mark.parametrize("name", sorted(TRIGGERS))
def test_a_trigger_survives_serialization_to_json(name):
    path, kwargs = make_trigger(TRIGGERS[name]).serialize()
    module_name, class_name = path.rsplit(".", 1)
    assert getattr(import_module(module_name), class_name) is TRIGGERS[name]
    stored_kwargs = json.loads(json.dumps(kwargs))
    assert stored_kwargs == kwargs, "JSON must keep the type of each value"
    assert TRIGGERS[name](**stored_kwargs).serialize() == (path, kwargs)
    assert set(kwargs) == set(inspect.signature(TRIGGERS[name].__init__).parameters) - {"self"}


@pytest.mark.parametrize("name", sorted(TRIGGERS))
def test_a_deserialized_trigger_has_the_same_database_row(name):
    """Airflow finds the row of an event trigger by this hash.

    If the hash changed at the next parse of the DAG file, Airflow would replace the running watcher by a new one.
    """
    path, kwargs = make_trigger(TRIGGERS[name]).serialize()
    deserialized_trigger = TRIGGERS[name](**json.loads(json.dumps(kwargs)))
    assert BaseEventTrigger.hash(path, kwargs) == BaseEventTrigger.hash(*deserialized_trigger.serialize())


_PRINT_SERIALIZED_TRIGGERS = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tests.airflow.test_conventions import TRIGGERS, make_trigger
print("triggers", json.dumps({name: make_trigger(cls).serialize() for name, cls in TRIGGERS.items()}))
"""


@pytest.mark.slow
def test_a_trigger_serializes_to_the_same_text_in_every_process():
    other_seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    output = subprocess.run(
        [sys.executable, "-c", _PRINT_SERIALIZED_TRIGGERS, str(CHECKOUT)],
        env=os.environ | {"PYTHONHASHSEED": other_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[-1]
    assert output == f"triggers {json.dumps({name: make_trigger(cls).serialize() for name, cls in TRIGGERS.items()})}"
