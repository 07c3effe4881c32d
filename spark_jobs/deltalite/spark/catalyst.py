"""Catalyst's plans and expressions as Python sees them: expressions are trees, read from the JSON that Spark makes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pyspark.sql import DataFrame

from deltalite.columnar.predicate import Path

Node = Mapping[str, Any]
"""One expression of a list that holds all of a tree, parents first."""


def query_execution(frame: DataFrame) -> Any:
    """The plans of a frame."""
    java: Any = frame._jdf
    return java.queryExecution()


def nodes_of(expression: Any) -> list[Node]:
    """All expressions within one, itself first."""
    found: list[Node] = json.loads(expression.toJSON())
    return found


def kind_of(node: Node) -> str:
    """The name of an expression's class."""
    return str(node["class"]).rpartition(".")[2]


class ConditionNode:
    """An expression with its children."""

    __slots__ = ("body", "children", "kind")

    def __init__(self, body: Node, children: list[Self]) -> None:
        self.body = body
        self.children = children
        self.kind = kind_of(body)

    @classmethod
    def parse(cls, expression: Any) -> Self:
        """The tree of an expression."""
        return cls._tree(iter(nodes_of(expression)))

    @classmethod
    def _tree(cls, nodes: Iterator[Node]) -> Self:
        body = next(nodes)
        return cls(body, [cls._tree(nodes) for _ in range(body["num-children"])])

    def path(self) -> Path | None:
        """The column, or the member of one, that this is; None where it is neither."""
        if self.kind == "AttributeReference":
            return (self.body["name"],)
        if self.kind == "GetStructField" and self.body.get("name"):
            parent = self.children[0].path()
            return None if parent is None else (*parent, self.body["name"])
        return None

    def attributes(self) -> Iterator[Path]:
        """The columns that this reads."""
        if self.kind == "AttributeReference":
            yield (self.body["name"],)
        for child in self.children:
            yield from child.attributes()

    def ids(self) -> frozenset[int]:
        """The ids of the columns that this reads, which tell those of one name apart."""
        own = {self.body["exprId"]["id"]} if self.kind == "AttributeReference" else set()
        return frozenset(own).union(*(child.ids() for child in self.children))
