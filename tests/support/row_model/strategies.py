"""Random cases for Hypothesis, and a function that makes a failing case smaller.

A seed determines each case. Hypothesis's own strategies repeat values, so that a third of the runs of a command, which
are slow, would repeat earlier cases. Hypothesis cannot shrink a seed. `smallest` therefore removes rows and clauses
one by one, as long as the case still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st

from tests.support.fuzzing import examples
from tests.support.row_model import chance
from tests.support.row_model.cases import Case, Merging
from tests.support.row_model.chance import Features, File, Table
from tests.support.row_model.operations import Clause

Drawn = tuple[Table, Case]


def random_cases(count: int, **options: Any) -> settings:
    """Hypothesis settings for `count` cases."""
    return settings(examples(count), phases=(Phase.reuse, Phase.generate), **options)


def cases(operations: Any, features: Features | None = None, *, plain: bool = False) -> st.SearchStrategy[Drawn]:
    """A table and an operation on it; `operations` is a function of `chance`: deletions, updates or mergings."""
    return _seeds().map(lambda rnd: chance.cases(rnd, operations, features, plain=plain))


def histories(features: Features) -> st.SearchStrategy[tuple[Table, list[Case]]]:
    """A table and operations on it, one after the other."""
    return _seeds().map(lambda rnd: chance.histories(rnd, features))


def _seeds() -> st.SearchStrategy[Random]:
    return st.integers(0, 2**60).map(Random)


def smallest(drawn: Drawn, fails: Callable[[Drawn], bool], tries: int = 50) -> Drawn:
    """The smallest failing case after at most `tries` attempts to remove a part."""
    candidates = smaller(*drawn)
    for _ in range(tries):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if fails(candidate):
            drawn, candidates = candidate, smaller(*candidate)
    return drawn


def smaller(table: Table, case: Case) -> Iterator[Drawn]:
    """The cases without one part of this case, large parts first."""
    for at in range(len(table.files)):
        yield replace(table, files=_without(table.files, at)), case
    if isinstance(case, Merging):
        yield from ((table, smaller_part) for smaller_part in _smaller_merges(case))
    for at, file in enumerate(table.files):
        for smaller_part in _smaller_files(file):
            yield replace(table, files=(*table.files[:at], smaller_part, *table.files[at + 1 :])), case
    for name in ("mapped", "soft_deleted"):
        if getattr(table.features, name) and not (name == "soft_deleted" and table.features.vectors):
            yield replace(table, features=replace(table.features, **{name: False})), case


def _smaller_merges(case: Merging) -> Iterator[Merging]:
    merge, relation = case.merge, case.source.relation
    kinds: dict[str, tuple[Clause, ...]] = {
        name: getattr(merge, name) for name in ("matched", "not_matched", "not_matched_by_source")
    }
    for name, clauses in kinds.items():
        if sum(map(len, kinds.values())) > 1:
            for at in range(len(clauses)):
                yield replace(case, merge=replace(merge, **{name: _without(clauses, at)}))
    for at in range(len(relation.rows)):
        rows = _without(tuple(relation.rows), at)
        yield replace(case, source=replace(case.source, relation=replace(relation, rows=rows)))


def _smaller_files(file: File) -> Iterator[File]:
    if file.deleted:
        yield replace(file, deleted=frozenset())
    if len(file.rows) > 1 and not file.deleted:
        yield from (replace(file, rows=_without(file.rows, at)) for at in range(len(file.rows)))


def _without(items: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return items[:at] + items[at + 1 :]
