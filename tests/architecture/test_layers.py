"""A module imports from lower layers only, and the modules that a worker loads import neither pyarrow nor pyspark.

The tables below are the rule; the tests read every source file's imports (those inside functions too) and hold them
against it. A module that does not exist yet breaks nothing, but the author of a new component adds it to a table.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
LIBRARY = CHECKOUT / "spark_jobs" / "deltalite"
PROVIDER = CHECKOUT / "airflow_provider_deltalite"

# Components of `deltalite`, top layer first. A component imports from layers below its own, and from itself.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__init__"}),  # re-exports the public names
    frozenset({"jobs", "cli"}),
    frozenset({"commands"}),
    frozenset({"spark", "watch", "table", "inspection"}),
    frozenset({"txn", "change_feed", "upkeep"}),
    frozenset({"snapshot"}),
    frozenset({"log", "columnar"}),
    frozenset({"protocol", "storage"}),
    frozenset({"requests", "results", "conditions", "redaction", "installation"}),
    frozenset({"errors", "version"}),
)
RANK = {component: rank for rank, layer in enumerate(reversed(LAYERS)) for component in layer}

# Rooms of the three largest components, top first. A room imports from rooms below its own, and from itself. A module
# outside a room, such as `commands/delete.py`, counts as a room.
ROOMS: dict[str, tuple[frozenset[str], ...]] = {
    "commands": (
        frozenset({"__init__"}),
        frozenset({"merge", "table"}),  # the first run of a merge is a write; a dropped feature needs an optimize
        frozenset(
            {
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
        frozenset({"common"}),
    ),
    "spark": (
        frozenset({"__init__"}),  # re-exports the readers
        frozenset({"reader", "merge"}),
        frozenset({"row_changes", "layout", "large_tables", "declared"}),
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
    {"requests", "results", "conditions", "redaction", "installation", "errors", "version", "watch", "table", "storage"}
)

# The contract between worker and driver: the standard library, and each other.
STANDARD_LIBRARY_ONLY = frozenset(
    {"errors", "requests", "results", "conditions", "redaction", "installation", "version"}
)

# Who may import pyspark, and who may name its types.
RUNS_ON_SPARK = frozenset({"spark"})
NAMES_SPARK_TYPES = frozenset({"commands", "jobs"})
NEEDS_SPARK = RUNS_ON_SPARK | NAMES_SPARK_TYPES

# The one component that draws on a terminal, and what it draws with. It reads tables without Spark.
TERMINAL = "cli"
DRAWS = frozenset({"rich"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, in absolute form."""

    target: str
    line: int
    for_types_only: bool

    @property
    def package(self) -> str:
        return self.target.split(".")[0]


def imports_of(source: str, module: str, *, is_package: bool) -> list[Import]:
    """Every import in `source`, wherever it stands: statements and `import_module` of a literal."""
    imports: list[Import] = []

    def visit(node: ast.AST, for_types_only: bool) -> None:
        imports.extend(
            Import(target=target, line=node.lineno, for_types_only=for_types_only)
            for target in targets_of(node, module, is_package=is_package)
        )
        guarded = node.body if is_type_checking(node) else []
        for child in ast.iter_child_nodes(node):
            visit(child, for_types_only or child in guarded)

    visit(ast.parse(source), False)
    return imports


def is_type_checking(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
        case _:
            return False


def targets_of(node: ast.AST, module: str, *, is_package: bool) -> list[str]:
    """The absolute names that one node imports. Of `from package import name`, `name` too: it may be a module."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0):
            return [f"{node.module}.{alias.name}" for alias in node.names]
        case ast.ImportFrom():
            parts = module.split(".")
            above = parts[: len(parts) - node.level + (1 if is_package else 0)]
            base = ".".join([*above, *([node.module] if node.module else [])])
            return [f"{base}.{alias.name}" for alias in node.names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(target)), *_],
        ):
            return [target]
        case _:
            return []


def modules_of(folder: Path) -> dict[str, Path]:
    """Dotted name -> file, for every module below a package's folder."""
    files_by_module = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        files_by_module[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files_by_module


def component(module: str) -> str:
    """`deltalite.log.replay` -> `log`; the package itself is `__init__`."""
    return (*module.split("."), "__init__")[1]


def component_of_target(target: str) -> str:
    """As `component`, where the last part may be a name that the package re-exports, as in `deltalite.DeltaTable`."""
    name = component(target)
    return name if name in RANK or (LIBRARY / name).is_dir() or (LIBRARY / f"{name}.py").exists() else "__init__"


def room(module: str) -> str:
    """`deltalite.spark.scan.frame` -> `scan`; the component itself is `__init__`."""
    return (*module.split(".")[1:], "__init__")[1]


@cache
def imports_in(module: str, path: Path) -> list[Import]:
    return imports_of(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py")


LIBRARY_MODULES = modules_of(LIBRARY)
PROVIDER_MODULES = modules_of(PROVIDER)


def upward(module: str, imports: list[Import]) -> list[str]:
    """Return the imports of `module` from its layer or above, as sentences."""
    importer = component(module)
    return [
        f"{module}:{item.line} imports {item.target}: '{importer}' may use only layers below it"
        for item in imports
        if item.package == "deltalite"
        for other in [component_of_target(item.target)]
        if other != importer and RANK.get(other, len(LAYERS)) >= RANK[importer]
    ]


def upward_rooms(module: str, imports: list[Import]) -> list[str]:
    """Return the imports of `module` from rooms that are not below its room, as sentences."""
    rooms = ROOMS[component(module)]
    ranks = {name: rank for rank, layer in enumerate(reversed(rooms)) for name in layer}
    importer = room(module)
    return [
        f"{module}:{item.line} imports {item.target}: '{importer}' may use only rooms below it"
        for item in imports
        if item.package == "deltalite" and component(item.target) == component(module)
        for imported in [room(item.target)]
        if imported != importer and ranks.get(imported, len(rooms)) >= ranks[importer]
    ]


def violations(modules: Mapping[str, Path], is_wrong: Callable[[str, Import], bool]) -> list[str]:
    """The imports of the modules for which `is_wrong` holds, each as one line."""
    return [
        f"{module}:{item.line} imports {item.target}"
        for module, path in modules.items()
        for item in imports_in(module, path)
        if is_wrong(module, item)
    ]


def test_every_component_and_room_of_the_library_has_a_place():
    assert [m for m in LIBRARY_MODULES if component(m) not in RANK] == [], "Give them a place in LAYERS."
    in_rooms = [m for m in LIBRARY_MODULES if component(m) in ROOMS]
    homeless = [m for m in in_rooms if not any(room(m) in layer for layer in ROOMS[component(m)])]
    assert homeless == [], "Give them a place in ROOMS."


def test_the_library_imports_downwards_only():
    assert [line for m, path in LIBRARY_MODULES.items() for line in upward(m, imports_in(m, path))] == []


def test_the_rooms_of_a_component_import_downwards_only():
    in_rooms = {m: path for m, path in LIBRARY_MODULES.items() if component(m) in ROOMS}
    assert [line for m, path in in_rooms.items() for line in upward_rooms(m, imports_in(m, path))] == []


def test_the_library_knows_neither_airflow_nor_the_provider():
    assert violations(LIBRARY_MODULES, lambda _, item: item.package.startswith("airflow")) == []


def test_pyspark_is_imported_below_the_spark_folder_only():
    def is_wrong(module: str, item: Import) -> bool:
        importer = component(module)
        allowed = importer in RUNS_ON_SPARK or (importer in NAMES_SPARK_TYPES and item.for_types_only)
        return item.package in {"pyspark", "py4j"} and not allowed

    assert violations(LIBRARY_MODULES, is_wrong) == []


def test_the_command_line_alone_draws_on_a_terminal_and_knows_nothing_of_spark():
    def is_wrong(module: str, item: Import) -> bool:
        if component(module) == TERMINAL:
            return item.package == "deltalite" and component_of_target(item.target) in NEEDS_SPARK
        return item.package in DRAWS

    assert violations(LIBRARY_MODULES, is_wrong) == []


def test_the_provider_uses_the_light_part_of_the_library_only():
    def is_wrong(_: str, item: Import) -> bool:
        if item.package == "deltalite":
            return component_of_target(item.target) not in PROVIDER_MAY_USE
        return item.package in {"pyspark", "py4j", *DRAWS}

    assert violations(PROVIDER_MODULES, is_wrong) == []


def test_the_contract_is_standard_library_only():
    def is_wrong(_: str, item: Import) -> bool:
        if item.package == "deltalite":
            return component_of_target(item.target) not in STANDARD_LIBRARY_ONLY
        return item.package not in sys.stdlib_module_names

    contract = {m: path for m, path in LIBRARY_MODULES.items() if component(m) in STANDARD_LIBRARY_ONLY}
    assert violations(contract, is_wrong) == []


# A separate process that refuses some packages and reports which modules could not be imported without them.
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


def problems_importing(modules: list[str], *, without: list[str]) -> dict[str, str]:
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
    modules = [m for m in LIBRARY_MODULES if component(m) not in NEEDS_SPARK]
    assert problems_importing(modules, without=["pyspark", "py4j", "airflow"]) == {}


def test_the_contract_imports_without_pyarrow():
    modules = [m for m in LIBRARY_MODULES if component(m) in STANDARD_LIBRARY_ONLY]
    assert problems_importing(modules, without=["pyarrow", "numpy", "pandas", "pyspark", "airflow"]) == {}


def test_an_import_of_a_refused_package_is_noticed():
    assert problems_importing(["pyarrow"], without=["pyarrow"]) == {"pyarrow": "pyarrow is refused by this test"}


# The tests of the tests: what each rule is for, seen to be caught.


def parsed(source: str, module: str = "deltalite.log.replay") -> list[Import]:
    return imports_of(source, module, is_package=False)


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
def test_an_import_upwards_is_found_wherever_it_stands(source, target):
    imports = parsed(source)
    assert target in [i.target for i in imports]
    assert len(upward("deltalite.log.replay", imports)) == 1


def test_an_import_of_a_public_name_from_the_package_itself_is_upwards():
    assert len(upward("deltalite.log.replay", parsed("from deltalite import DeltaTable"))) == 1


def test_an_import_downwards_or_of_ones_own_component_is_allowed():
    source = (
        "from deltalite.protocol import actions\nfrom . import segment\nfrom deltalite.errors import DeltaLiteError"
    )
    assert upward("deltalite.log.replay", parsed(source)) == []


def test_components_of_one_layer_do_not_import_each_other():
    assert len(upward("deltalite.log.replay", parsed("import deltalite.columnar.stats"))) == 1


def test_an_upward_import_between_rooms_is_found():
    source = "from deltalite.spark.scan.frame import scan\nfrom deltalite.spark.columns import types"
    assert len(upward_rooms("deltalite.spark.columns.types", parsed(source))) == 1
    assert len(upward_rooms("deltalite.spark.scan.frame", parsed("from deltalite.spark import read"))) == 1
    assert upward_rooms("deltalite.spark.reader.read", parsed(source)) == []


def test_an_import_for_types_only_is_told_apart():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark\nelse:\n    import py4j"
    assert {i.target: i.for_types_only for i in parsed(source) if i.package != "typing"} == {
        "pyspark": True,
        "py4j": False,
    }
