"""Catalyst's plans and expressions in Python. An expression is a tree, parsed from the JSON that Spark writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pyspark.sql import DataFrame

from deltalite.columnar.predicates.predicate import Path

Node = Mapping[str, Any]
"""One expression of a tree. A list of nodes has the tree in pre-order."""


def query_execution(frame: DataFrame) -> Any:
    """Return the Java `QueryExecution` of a frame, which has its plans."""
    java: Any = frame._jdf
    return java.queryExecution()


def nodes_of(expression: Any) -> list[Node]:
    """Return an expression and all expressions within it, in pre-order."""
    nodes: list[Node] = json.loads(expression.toJSON())
    return nodes


def columns_read_from(side: DataFrame, filtered: DataFrame) -> tuple[str, ...]:
    """Return the names of the columns of `side` that the condition of `filtered` reads.

    `filtered` is the result of `where` on a join with `side`.
    """
    output = query_execution(side).analyzed().output()
    ids = {output.apply(n).exprId().id() for n in range(output.size())}
    nodes = nodes_of(query_execution(filtered).analyzed().condition())
    names = [n["name"] for n in nodes if kind_of(n) == "AttributeReference" and n["exprId"]["id"] in ids]
    return tuple(dict.fromkeys(names))


def kind_of(node: Node) -> str:
    """Return the class name of an expression, without its package."""
    return str(node["class"]).rpartition(".")[2]


class ConditionNode:
    """An expression as a tree. `body` has the JSON fields of Catalyst's expression, without its children."""

    __slots__ = ("body", "children", "kind")

    def __init__(self, body: Node, children: list[Self]) -> None:
        self.body = body
        self.children = children
        self.kind = kind_of(body)

    @classmethod
    def parse(cls, expression: Any) -> Self:
        """Parse an expression into a tree."""
        return cls._tree(iter(nodes_of(expression)))

    @classmethod
    def _tree(cls, nodes: Iterator[Node]) -> Self:
        body = next(nodes)
        return cls(body, [cls._tree(nodes) for _ in range(body["num-children"])])

    def path(self) -> Path | None:
        """Return the path of a column or of a struct member; None for any other expression."""
        if self.kind == "AttributeReference":
            return (self.body["name"],)
        if self.kind == "GetStructField" and self.body.get("name"):
            parent = self.children[0].path()
            return None if parent is None else (*parent, self.body["name"])
        return None

    def attributes(self) -> Iterator[Path]:
        """Yield the columns that the expression reads."""
        if self.kind == "AttributeReference":
            yield (self.body["name"],)
        for child in self.children:
            yield from child.attributes()

    def ids(self) -> frozenset[int]:
        """Return the ids of the columns that the expression reads. Columns of the same name have different ids."""
        ids = {self.body["exprId"]["id"]} if self.kind == "AttributeReference" else set()
        return frozenset(ids).union(*(child.ids() for child in self.children))
