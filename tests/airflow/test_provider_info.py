"""The provider info is valid: Airflow knows each of its keys, and every module in it exists."""

import json
import re
import subprocess
import sys
from importlib import import_module, resources
from importlib.metadata import entry_points

import jsonschema
import pytest

import airflow_provider_deltalite
from airflow_provider_deltalite.get_provider_info import get_provider_info


def strict_schema(schema):
    """Return a JSON schema with `additionalProperties: false` at each object that names its properties."""
    match schema:
        case {"properties": dict()}:
            members = {name: strict_schema(member) for name, member in schema["properties"].items()}
            return {"additionalProperties": False, **schema, "properties": members}
        case {"items": dict() as items}:
            return schema | {"items": strict_schema(items)}
        case {"additionalProperties": dict() as values}:
            return schema | {"additionalProperties": strict_schema(values)}
        case _:
            return schema


def test_the_provider_info_is_valid_and_airflow_knows_each_of_its_keys_at_any_depth():
    info = get_provider_info()
    schema = strict_schema(json.loads((resources.files("airflow") / "provider_info.schema.json").read_text()))
    jsonschema.validate(info, schema)
    operators_with_unknown_key = [{**info["operators"][0], "integration_name": "x"}]
    with pytest.raises(jsonschema.ValidationError, match="integration_name"):
        jsonschema.validate(info | {"operators": operators_with_unknown_key}, schema)


def test_the_package_name_is_the_name_of_the_distribution():
    assert get_provider_info()["package-name"] == "airflow-provider-deltalite"


def test_every_named_module_can_be_imported():
    info = get_provider_info()
    kinds = ("operators", "sensors", "hooks", "triggers")
    modules = [module for kind in kinds for entry in info[kind] for module in entry["python-modules"]]
    assert modules
    for module in modules:
        import_module(module)


def test_the_plugin_gives_templates_the_app_id_of_another_task(monkeypatch):
    # Tasks load plugins from entry points. They ignore the plugins that the provider info names.
    all_plugins = entry_points(group="airflow.plugins")
    (entry_point,) = [point for point in all_plugins if point.dist.name == "airflow-provider-deltalite"]
    plugin = entry_point.load()
    assert plugin.name == entry_point.name == "deltalite"
    monkeypatch.setenv("AIRFLOW__DELTALITE__NAMESPACE", "a/b")
    (app_id_of,) = plugin.macros
    ids_of_dag_run = {"dag_id": "sales", "run_id": "manual__2026"}
    assert app_id_of("load", **ids_of_dag_run) == "a%2Fb/sales/load/-1/manual__2026"
    assert app_id_of("load", map_index=3, **ids_of_dag_run) == "a%2Fb/sales/load/3/manual__2026"


def test_reading_the_provider_info_does_not_import_airflow():
    code = (
        "import sys; from airflow_provider_deltalite.get_provider_info import get_provider_info; get_provider_info();"
        "print('airflow' in sys.modules)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "False"


def test_the_package_has_a_version_of_three_numbers():
    assert re.fullmatch(r"\d+\.\d+\.\d+", airflow_provider_deltalite.__version__)
