"""Finds the imports of Python modules in their source. No module is imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import by its absolute name, such as `package.module` or `package.module.name`."""

    target: str
    line: int
    for_types_only: bool

    @property
    def package(self) -> str:
        """The first part of the name."""
        return self.target.split(".")[0]


def imports_of_source(source: str, module: str, *, is_package: bool) -> list[Import]:
    """Return every import in the source of a module, also those inside functions.

    A call of `import_module` or `__import__` with a literal name is an import too.
    """
    imports: list[Import] = []
    # Most modules have no import in an expression. Without expressions, the walk is several times as fast.
    has_dynamic_import = "import_module" in source or "__import__" in source

    def visit(node: ast.AST, for_types_only: bool) -> None:
        imports.extend(
            Import(target=target, line=node.lineno, for_types_only=for_types_only)
            for target in targets_of(node, module, is_package=is_package)
        )
        type_checking_body = node.body if is_type_checking_block(node) else []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and not has_dynamic_import:
                continue
            visit(child, for_types_only or child in type_checking_body)

    visit(ast.parse(source), False)
    return imports


def is_type_checking_block(node: ast.AST) -> bool:
    """Whether a node is `if TYPE_CHECKING:`."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
        case _:
            return False


def targets_of(node: ast.AST, module: str, *, is_package: bool) -> list[str]:
    """Return the absolute names that one node imports; none if the node is not an import.

    For `from package import name`, the result is `package.name`, because `name` may be a module.
    """
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0):
            return [f"{node.module}.{alias.name}" for alias in node.names]
        case ast.ImportFrom():
            parts = module.split(".")
            parent_parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
            source_module = ".".join([*parent_parts, *([node.module] if node.module else [])])
            return [f"{source_module}.{alias.name}" for alias in node.names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(target)), *_],
        ):
            return [target]
        case _:
            return []


def modules_of(folder: Path) -> dict[str, Path]:
    """Return the file of every module below a package's folder, by the module's dotted name."""
    files_by_module = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        files_by_module[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files_by_module


@cache
def imports_of_module(module: str, path: Path) -> list[Import]:
    """Return the imports of a module. `path` is its file."""
    return imports_of_source(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py")
