"""No exception is raised from itself: a program that follows the causes of such an exception never ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("spark_jobs/deltalite", "airflow_provider_deltalite", "example_dags", "demo")
    for path in sorted((CHECKOUT / folder).rglob("*.py"))
]


def may_be(value: ast.expr, name: str, returned_positions: dict[str, set[int]]) -> bool:
    """Whether the value of an expression can be the object that the variable `name` holds.

    `returned_positions` is the result of `returned_arguments`.
    """
    match value:
        case ast.Name(id=other_name):
            return other_name == name
        case ast.BoolOp(values=values):
            return any(may_be(operand, name, returned_positions) for operand in values)
        case ast.IfExp(body=body, orelse=orelse):
            return may_be(body, name, returned_positions) or may_be(orelse, name, returned_positions)
        case ast.NamedExpr(value=inner) | ast.Await(value=inner):
            return may_be(inner, name, returned_positions)
        case ast.Call(
            func=ast.Name(id=function_name) | ast.Attribute(attr=function_name),
            args=arguments,
        ) if function_name in returned_positions or function_name == "with_traceback":
            if function_name == "with_traceback":
                return isinstance(value.func, ast.Attribute) and may_be(value.func.value, name, returned_positions)
            return any(
                may_be(arguments[index], name, returned_positions)
                for index in returned_positions[function_name]
                if index < len(arguments)
            )
        case _:
            return False


def statements_in(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements in a module or function. Most nodes are parts of expressions, which have no statements."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.expr):
            yield node
            yield from statements_in(node)


def returned_arguments(trees: list[ast.Module]) -> dict[str, set[int]]:
    """Return the positions of the arguments that a function may return unchanged, by the function's name."""
    positions_by_function: dict[str, set[int]] = {}
    for function in (node for tree in trees for node in statements_in(tree) if isinstance(node, ast.FunctionDef)):
        names = [argument.arg for argument in function.args.args if argument.arg not in ("self", "cls")]
        for node in statements_in(function):
            if isinstance(node, ast.Return) and node.value is not None:
                positions = {index for index, name in enumerate(names) if may_be(node.value, name, {})}
                if positions:
                    positions_by_function.setdefault(function.name, set()).update(positions)
    return positions_by_function


def lines_that_raise_from_itself(tree: ast.Module, returned_positions: dict[str, set[int]]) -> list[int]:
    """Return the lines of `raise X from Y` in which X can be Y."""
    return [
        node.lineno
        for node in statements_in(tree)
        if isinstance(node, ast.Raise) and node.exc is not None and isinstance(node.cause, ast.Name)
        if may_be(node.exc, node.cause.id, returned_positions)
    ]


def test_no_exception_in_the_sources_can_be_its_own_cause():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    positions_by_path = {path: returned_arguments([tree]) for path, tree in trees.items()}
    positions_of_public_functions: dict[str, set[int]] = {}
    for positions_by_function in positions_by_path.values():
        for name, positions in positions_by_function.items():
            if not name.startswith("_"):
                positions_of_public_functions.setdefault(name, set()).update(positions)
    violations = [
        f"{path}:{line}"
        for path, tree in trees.items()
        for line in lines_that_raise_from_itself(tree, positions_of_public_functions | positions_by_path[path])
    ]
    assert violations == []


@pytest.mark.parametrize(
    "statement",
    [
        "raise error from error",
        "raise typed(error) or error from error",
        "raise first(error) or typed(error) or error from error",
        "raise typed(error) if x else error from error",
        "raise (y := error) from error",
        "raise error.with_traceback(None) from error",
        "raise same(1, error) from error",
    ],
)
def test_an_exception_that_can_be_its_own_cause_is_detected(statement):
    tree = ast.parse(f"def same(n, error):\n    return error if n else Error()\n{statement}\n")
    assert lines_that_raise_from_itself(tree, returned_arguments([tree])) == [3]


@pytest.mark.parametrize("statement", ["raise typed(error) from error", "raise Error(str(error)) from error", "raise"])
def test_another_exception_with_a_cause_is_allowed(statement):
    assert lines_that_raise_from_itself(ast.parse(statement), {}) == []
