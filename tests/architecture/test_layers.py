"""A module imports from lower layers only, and the modules that a worker loads import neither pyarrow nor pyspark.

The tables below contain the rules. The tests compare them with the imports of every source file, also with imports
inside functions. The author of a new component adds it to a table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.imports import Import, imports_of_module, imports_of_source, modules_of

CHECKOUT = Path(__file__).resolve().parents[2]
LIBRARY = CHECKOUT / "spark_jobs" / "deltalite"
PROVIDER = CHECKOUT / "airflow_provider_deltalite"

# Components of `deltalite`, top layer first. A component imports from layers below its own, and from itself.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__init__"}),  # re-exports the public names
    frozenset({"jobs", "cli"}),
    frozenset({"commands"}),
    frozenset({"spark", "watch", "new_files", "table", "inspection"}),
    frozenset({"txn", "change_feed", "upkeep"}),
    frozenset({"snapshot"}),
    frozenset({"log", "columnar", "loaded_files"}),
    frozenset({"protocol", "storage", "markers"}),
    frozenset({"requests", "results", "conditions", "redaction", "installation", "phases"}),
    frozenset({"errors", "version", "sizes"}),
)
RANK = {component: rank for rank, layer in enumerate(reversed(LAYERS)) for component in layer}

# Rooms of the three largest components, top first. A room imports from rooms below its own, and from itself. A module
# outside a room, such as `commands/delete.py`, counts as a room.
ROOMS: dict[str, tuple[frozenset[str], ...]] = {
    "commands": (
        frozenset({"__init__"}),
        frozenset({"scd"}),  # merges the rows that it computes
        # A copy, and a merge that creates its table, are writes. Dropping a table feature may need an optimize. A
        # maintenance runs the optimize, checkpoint and vacuum commands.
        frozenset({"copy", "maintain", "merge", "table"}),
        frozenset(
            {
                "check",
                "checkpoint",
                "convert",
                "delete",
                "generate_manifest",
                "optimize",
                "restore",
                "update",
                "vacuum",
                "write",
            }
        ),
        frozenset({"row_changes"}),
        # A write or a merge commits rejected rows here, and passes the write command to commit them.
        frozenset({"quarantine"}),
        frozenset({"flows"}),
        frozenset({"common"}),
    ),
    "spark": (
        frozenset({"__init__"}),  # re-exports the readers
        frozenset({"audits"}),
        frozenset({"reader", "merge", "scd"}),
        frozenset({"row_changes", "layout", "large_tables", "declared", "catalog"}),
        frozenset({"scan", "write"}),
        frozenset({"expressions"}),
        frozenset({"columns"}),
        frozenset({"hadoop"}),
        frozenset({"runtime"}),
    ),
    "columnar": (
        frozenset({"__init__"}),
        frozenset({"reader"}),
        frozenset({"skipping"}),
        frozenset({"statistics"}),
        frozenset({"predicates", "parquet", "deletion_vectors"}),
    ),
}

# The parts of the library that an Airflow worker may load: enough to ask for a job and to read the log.
PROVIDER_MAY_USE = frozenset(
    {
        "requests",
        "markers",
        "results",
        "conditions",
        "redaction",
        "installation",
        "errors",
        "version",
        "sizes",
        "watch",
        "new_files",
        "table",
        "storage",
    }
)

# The page runs in the API server only, so it may load more. `registration` is the module that every process loads.
PAGE = "airflow_provider_deltalite.page"
PAGE_REGISTRATION = f"{PAGE}.registration"
PAGE_MAY_USE = PROVIDER_MAY_USE | {"inspection", "snapshot", "log", "phases"}
# Modules of the page, top first. A module imports from modules below it.
PAGE_LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"app"}),
    frozenset({"list_routes", "table_routes", "run_routes"}),
    frozenset({"maintenance_routes"}),
    frozenset({"route_base"}),
    frozenset({"table_list"}),
    frozenset({"services", "measured_view", "preview_view", "column_view"}),
    frozenset({"maintenance_view", "run_start"}),
    frozenset({"lake_view", "rendering", "access", "database"}),
    frozenset({"freshness", "table_view", "growth_view", "run_view", "links", "reading", "roots"}),
    frozenset({"layout_view", "snippets", "read_pool", "cache", "explanations", "form_tokens", "spans"}),
    frozenset({"known_tables", "settings"}),
    frozenset({"registration"}),
    frozenset({"__init__"}),
)

# The contract between worker and driver. These components import only the standard library and each other.
STANDARD_LIBRARY_ONLY = frozenset(
    {
        "errors",
        "requests",
        "results",
        "markers",
        "conditions",
        "redaction",
        "installation",
        "sizes",
        "phases",
        "version",
    }
)

# The components that may import pyspark, and the components that may name its types.
RUNS_ON_SPARK = frozenset({"spark"})
NAMES_SPARK_TYPES = frozenset({"commands", "jobs"})
NEEDS_SPARK = RUNS_ON_SPARK | NAMES_SPARK_TYPES

# The only component that draws on a terminal, and the packages that it uses for this. It reads tables without Spark.
TERMINAL_COMPONENT = "cli"
TERMINAL_PACKAGES = frozenset({"rich"})


def component(module: str) -> str:
    """Return the component of a module, such as `log` for `deltalite.log.replay`; `__init__` for the package itself."""
    return (*module.split("."), "__init__")[1]


def component_of_target(target: str) -> str:
    """Return the component of an imported name; `__init__` for a name that the package exports, as `DeltaTable`."""
    name = component(target)
    return name if name in RANK or (LIBRARY / name).is_dir() or (LIBRARY / f"{name}.py").exists() else "__init__"


def room(module: str) -> str:
    """Return the room of a module, such as `scan` for `deltalite.spark.scan.frame`; `__init__` for the component."""
    return (*module.split(".")[1:], "__init__")[1]


LIBRARY_MODULES = modules_of(LIBRARY)
PROVIDER_MODULES = modules_of(PROVIDER)


def upward_imports(module: str, imports: list[Import]) -> list[str]:
    """Return the imports of `module` from its layer or above, as sentences."""
    importer = component(module)
    return [
        f"{module}:{module_import.line} imports {module_import.target}: '{importer}' may use only layers below it"
        for module_import in imports
        if module_import.package == "deltalite"
        for imported in [component_of_target(module_import.target)]
        if imported != importer and RANK.get(imported, len(LAYERS)) >= RANK[importer]
    ]


def upward_room_imports(module: str, imports: list[Import]) -> list[str]:
    """Return the imports of `module` from rooms that are not below its room, as sentences."""
    rooms = ROOMS[component(module)]
    ranks = {name: rank for rank, layer in enumerate(reversed(rooms)) for name in layer}
    importer = room(module)
    return [
        f"{module}:{module_import.line} imports {module_import.target}: '{importer}' may use only rooms below it"
        for module_import in imports
        if module_import.package == "deltalite" and component(module_import.target) == component(module)
        for imported in [room(module_import.target)]
        if imported != importer and ranks.get(imported, len(rooms)) >= ranks[importer]
    ]


def violations(modules: Mapping[str, Path], is_wrong: Callable[[str, Import], bool]) -> list[str]:
    """Return the imports of the modules for which `is_wrong` holds, each as one line."""
    return [
        f"{module}:{module_import.line} imports {module_import.target}"
        for module, path in modules.items()
        for module_import in imports_of_module(module, path)
        if is_wrong(module, module_import)
    ]


def test_every_component_and_room_of_the_library_is_in_a_table():
    assert [module for module in LIBRARY_MODULES if component(module) not in RANK] == [], (
        "Add their components to LAYERS."
    )
    modules_in_rooms = [module for module in LIBRARY_MODULES if component(module) in ROOMS]
    unlisted_modules = [
        module for module in modules_in_rooms if not any(room(module) in layer for layer in ROOMS[component(module)])
    ]
    assert unlisted_modules == [], "Add their rooms to ROOMS."


def test_the_library_imports_downwards_only():
    assert [
        line
        for module, path in LIBRARY_MODULES.items()
        for line in upward_imports(module, imports_of_module(module, path))
    ] == []


def test_the_rooms_of_a_component_import_downwards_only():
    modules_in_rooms = {module: path for module, path in LIBRARY_MODULES.items() if component(module) in ROOMS}
    assert [
        line
        for module, path in modules_in_rooms.items()
        for line in upward_room_imports(module, imports_of_module(module, path))
    ] == []


def test_the_library_knows_neither_airflow_nor_the_provider():
    assert violations(LIBRARY_MODULES, lambda _, module_import: module_import.package.startswith("airflow")) == []


def test_only_the_spark_component_imports_pyspark_at_run_time():
    def is_wrong(module: str, module_import: Import) -> bool:
        importer = component(module)
        allowed = importer in RUNS_ON_SPARK or (importer in NAMES_SPARK_TYPES and module_import.for_types_only)
        return module_import.package in {"pyspark", "py4j"} and not allowed

    assert violations(LIBRARY_MODULES, is_wrong) == []


def test_only_the_command_line_draws_on_a_terminal_and_it_imports_nothing_that_needs_spark():
    def is_wrong(module: str, module_import: Import) -> bool:
        if component(module) == TERMINAL_COMPONENT:
            return module_import.package == "deltalite" and component_of_target(module_import.target) in NEEDS_SPARK
        return module_import.package in TERMINAL_PACKAGES

    assert violations(LIBRARY_MODULES, is_wrong) == []


def test_the_provider_uses_the_light_part_of_the_library_only():
    def is_wrong(module: str, module_import: Import) -> bool:
        is_of_page = module.startswith(f"{PAGE}.") and module != PAGE_REGISTRATION
        if module_import.package == "deltalite":
            allowed = PAGE_MAY_USE if is_of_page else PROVIDER_MAY_USE
            return component_of_target(module_import.target) not in allowed
        return module_import.package in {"pyspark", "py4j", *TERMINAL_PACKAGES}

    assert violations(PROVIDER_MODULES, is_wrong) == []


def page_module(target: str) -> str | None:
    """Return the module of the page that an import names; None for any other import."""
    return (*target.split("."), "__init__")[2] if f"{target}.".startswith(f"{PAGE}.") else None


def test_only_the_page_imports_its_modules_and_they_import_downwards():
    ranks = {name: rank for rank, layer in enumerate(reversed(PAGE_LAYERS)) for name in layer}

    def is_wrong(module: str, module_import: Import) -> bool:
        imported, importer = page_module(module_import.target), page_module(module)
        if imported is None or module_import.for_types_only:
            return False
        if importer is None:
            return imported != "registration"
        # The app that `registration` makes builds the real app at the first request.
        return module != PAGE_REGISTRATION and ranks[imported] >= ranks[importer]

    page_modules = [page_module(module) for module in PROVIDER_MODULES if page_module(module)]
    assert [module for module in page_modules if module not in ranks] == [], "Add them to PAGE_LAYERS."
    assert violations(PROVIDER_MODULES, is_wrong) == []


def test_loading_the_plugin_imports_neither_the_page_nor_fastapi_nor_pyarrow():
    program = (
        "import sys; import airflow_provider_deltalite.plugin; "
        "print([m for m in sys.modules if m.startswith(('airflow_provider_deltalite.page.', 'fastapi', 'pyarrow')) "
        "and m != 'airflow_provider_deltalite.page.registration'])"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip().splitlines()[-1] == "[]"


def test_the_contract_imports_only_the_standard_library_and_itself():
    def is_wrong(_: str, module_import: Import) -> bool:
        if module_import.package == "deltalite":
            return component_of_target(module_import.target) not in STANDARD_LIBRARY_ONLY
        return module_import.package not in sys.stdlib_module_names

    contract = {module: path for module, path in LIBRARY_MODULES.items() if component(module) in STANDARD_LIBRARY_ONLY}
    assert violations(contract, is_wrong) == []


# A program that refuses to import some packages, and prints the modules that cannot be imported without them.
IMPORT_WITHOUT = """
import importlib, json, sys
modules, refused = json.loads(sys.argv[1])
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is refused by this test", name=name)
sys.meta_path.insert(0, Refuse())
problems = {}
for module in modules:
    try:
        importlib.import_module(module)
    except ImportError as error:
        problems[module] = str(error)
print(json.dumps(problems))
"""


def import_problems(modules: list[str], *, without: list[str]) -> dict[str, str]:
    """Return the error of each module that cannot be imported without these packages."""
    process = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT, json.dumps([modules, without])],
        env={**os.environ, "PYTHONPATH": str(LIBRARY.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_everything_outside_spark_commands_and_jobs_imports_without_spark_and_airflow():
    modules = [module for module in LIBRARY_MODULES if component(module) not in NEEDS_SPARK]
    assert import_problems(modules, without=["pyspark", "py4j", "airflow"]) == {}


def test_the_contract_imports_without_pyarrow():
    modules = [module for module in LIBRARY_MODULES if component(module) in STANDARD_LIBRARY_ONLY]
    assert import_problems(modules, without=["pyarrow", "numpy", "pandas", "pyspark", "airflow"]) == {}


def test_an_import_of_a_refused_package_is_detected():
    assert import_problems(["pyarrow"], without=["pyarrow"]) == {"pyarrow": "pyarrow is refused by this test"}


# These tests check that the rules above detect forbidden imports.


def parse_imports(source: str, module: str = "deltalite.log.replay") -> list[Import]:
    return imports_of_source(source, module, is_package=False)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("import deltalite.jobs.write", "deltalite.jobs.write"),
        ("from deltalite import snapshot", "deltalite.snapshot"),
        ("from ..txn import commit", "deltalite.txn.commit"),
        ("from .. import snapshot", "deltalite.snapshot"),
        ("def f():\n    from deltalite.table import DeltaTable", "deltalite.table.DeltaTable"),
        ("import importlib\nx = importlib.import_module('deltalite.txn')", "deltalite.txn"),
    ],
)
def test_an_upward_import_is_detected_in_every_form(source, target):
    imports = parse_imports(source)
    assert target in [i.target for i in imports]
    assert len(upward_imports("deltalite.log.replay", imports)) == 1


def test_an_import_of_a_public_name_from_the_package_itself_is_upwards():
    assert len(upward_imports("deltalite.log.replay", parse_imports("from deltalite import DeltaTable"))) == 1


def test_an_import_downwards_or_of_the_same_component_is_allowed():
    source = (
        "from deltalite.protocol import actions\nfrom . import segment\nfrom deltalite.errors import DeltaLiteError"
    )
    assert upward_imports("deltalite.log.replay", parse_imports(source)) == []


def test_components_of_one_layer_do_not_import_each_other():
    assert len(upward_imports("deltalite.log.replay", parse_imports("import deltalite.columnar.stats"))) == 1


def test_an_upward_import_between_rooms_is_detected():
    source = "from deltalite.spark.scan.frame import scan\nfrom deltalite.spark.columns import types"
    assert len(upward_room_imports("deltalite.spark.columns.types", parse_imports(source))) == 1
    assert (
        len(upward_room_imports("deltalite.spark.scan.frame", parse_imports("from deltalite.spark import read"))) == 1
    )
    assert upward_room_imports("deltalite.spark.reader.read", parse_imports(source)) == []


def test_an_import_for_types_only_is_distinguished_from_one_at_run_time():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark\nelse:\n    import py4j"
    assert {i.target: i.for_types_only for i in parse_imports(source) if i.package != "typing"} == {
        "pyspark": True,
        "py4j": False,
    }
