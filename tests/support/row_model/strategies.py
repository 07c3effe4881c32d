"""Random cases for Hypothesis, and a function that makes a failing case smaller.

A seed determines each case. If Hypothesis drew the parts of a case, a third of the cases would repeat earlier ones, and
each run of a command takes long. Hypothesis cannot shrink a seed. `shrunk` therefore removes rows and clauses one by
one, as long as the case still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from tests.support.fuzzing import examples
from tests.support.row_model import random_cases
from tests.support.row_model.cases import Case, Merging
from tests.support.row_model.operations import Clause
from tests.support.row_model.random_cases import Features, File, Table

TableAndCase = tuple[Table, Case]


def settings_for_cases(count: int, **options: Any) -> settings:
    """Hypothesis settings for `count` cases."""
    return settings(examples(count), phases=(Phase.reuse, Phase.generate), **options)


def cases(
    random_operation: Any, features: Features | None = None, *, plain: bool = False
) -> st.SearchStrategy[TableAndCase]:
    """Tables, each with an operation on it; the parameters are those of `random_case`."""
    return _randoms().map(lambda rnd: random_cases.random_case(rnd, random_operation, features, plain=plain))


def histories(features: Features) -> st.SearchStrategy[tuple[Table, list[Case]]]:
    """Tables, each with several operations to run on it, one after the other."""
    return _randoms().map(lambda rnd: random_cases.random_history(rnd, features))


def _randoms() -> st.SearchStrategy[Random]:
    return st.integers(0, 2**60).map(Random)


def shrunk(case: TableAndCase, fails: Callable[[TableAndCase], bool], tries: int = 50) -> TableAndCase:
    """Return the failing `case` without some parts that the failure does not need.

    The function tries at most `tries` smaller cases, and keeps those for which `fails` is true.
    """
    candidates = smaller(*case)
    for _ in range(tries):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if fails(candidate):
            case, candidates = candidate, smaller(*candidate)
    return case


def smaller(table: Table, case: Case) -> Iterator[TableAndCase]:
    """Each case that lacks one part of this case, large parts first."""
    for index in range(len(table.files)):
        yield replace(table, files=_without(table.files, index)), case
    if isinstance(case, Merging):
        yield from ((table, smaller_merge) for smaller_merge in _smaller_merges(case))
    for index, file in enumerate(table.files):
        for smaller_file in _smaller_files(file):
            yield replace(table, files=(*table.files[:index], smaller_file, *table.files[index + 1 :])), case
    for name in ("mapped", "soft_deleted"):
        if getattr(table.features, name) and not (name == "soft_deleted" and table.features.vectors):
            yield replace(table, features=replace(table.features, **{name: False})), case


def _smaller_merges(case: Merging) -> Iterator[Merging]:
    merge, relation = case.merge, case.source.relation
    clauses_by_kind: dict[str, tuple[Clause, ...]] = {
        kind: getattr(merge, kind) for kind in ("matched", "not_matched", "not_matched_by_source")
    }
    for kind, clauses in clauses_by_kind.items():
        if sum(map(len, clauses_by_kind.values())) > 1:
            for index in range(len(clauses)):
                yield replace(case, merge=replace(merge, **{kind: _without(clauses, index)}))
    for index in range(len(relation.rows)):
        rows = _without(tuple(relation.rows), index)
        yield replace(case, source=replace(case.source, relation=replace(relation, rows=rows)))


def _smaller_files(file: File) -> Iterator[File]:
    if file.deleted:
        yield replace(file, deleted=frozenset())
    if len(file.rows) > 1 and not file.deleted:
        yield from (replace(file, rows=_without(file.rows, index)) for index in range(len(file.rows)))


def _without(items: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return items[:index] + items[index + 1 :]
