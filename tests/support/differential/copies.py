"""Two copies of a table: this library changes one of them, delta-spark the other, and both read both."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from deltalite import DeltaTable
from deltalite.errors import DeltaLiteError
from tests.support.delta_spark import DeltaSpark, DeltaSparkError, rows_or_raise
from tests.support.differential import readings
from tests.support.differential.conditions import condition
from tests.support.differential.definitions import added_statistics, definition
from tests.support.differential.random_statements import Draw
from tests.support.differential.statements import Checkpoint, Create, Restore, Statement, Write
from tests.support.differential.tables import KEY, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """This library on a session of Spark, and the session of delta-spark."""

    spark: SparkSession
    delta_spark: DeltaSpark

    def refusal_by_us(self, statement: Statement, path: str) -> str | None:
        """Run the statement with this library; return the error, or None."""
        try:
            statement.run(self.spark, path)
        except DeltaLiteError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def refusal_by_both(self, statement: Statement, ours: str, theirs: str) -> tuple[str | None, str | None]:
        """Run the statement with this library on `ours`, and with delta-spark on `theirs`; return both errors."""
        texts = statement.sql(theirs)
        self.delta_spark.send(texts)  # delta-spark works at the same time as this library
        try:
            refusal = self.refusal_by_us(statement, ours)
        finally:
            answers = [self.delta_spark.receive() for _ in texts]
        errors = [str(answer) for answer in answers if isinstance(answer, DeltaSparkError)]
        return refusal, errors[0] if errors else None


class Copies:
    """The two copies of a random table, and the statements so far."""

    def __init__(self, engines: Engines, folder: Path, seed: int) -> None:
        self.engines = engines
        self.rnd = Random(seed)
        self.draw = Draw(rnd=self.rnd)
        self.paths = (str(folder / "a"), str(folder / "b"))
        self.journal: list[str] = [f"seed {seed}"]
        self._row_ids: dict[str, dict[int, int]] = {path: {} for path in self.paths}

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Add the statements so far to an error."""
        try:
            yield
        except Exception as error:
            raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *self.journal])) from error

    def create(self, table: Table) -> None:
        """Create the table with a random engine, and copy it."""
        self.table = table
        first, second = self.paths
        statement = Create(table=table)
        by_us = self.rnd.randrange(2) == 0
        self._note("both copies", statement, "this library" if by_us else "delta-spark")
        if by_us:
            statement.run(self.engines.spark, first)
        else:
            for text in statement.sql(first):
                self.engines.delta_spark.sql(text)
        shutil.copytree(first, second)
        self._compare(table, (-1, -1))

    def step(self) -> None:
        """Perform a random statement on both copies, and compare them."""
        statement = self.draw.statement(self.table)
        ours, theirs = self.rnd.sample(self.paths, 2)
        self._note(f"this library on {ours[-1]}, delta-spark on {theirs[-1]}", statement, "")
        before = tuple(DeltaTable(path).version for path in self.paths)
        refusals = self.engines.refusal_by_both(statement, ours, theirs)
        after = tuple(DeltaTable(path).version for path in self.paths)
        if any(refusals):
            self.journal.append(f"-- refused: {refusals}")
            assert all(refusals), f"only one engine refused the statement: {refusals}"
            assert after == before, "a refused statement changed a table"
            return
        if isinstance(statement, Checkpoint):
            assert after == before
        else:
            self.table = statement.after(self.table)
        self._compare(statement, before)

    def _note(self, where: str, statement: Statement, engine: str) -> None:
        texts = [text.replace(self.paths[1], "T") for text in statement.sql(self.paths[1])] or [repr(statement)]
        self.journal.append(f"-- {where} {engine}\n" + ";\n".join(texts) + ";")

    def _compare(self, statement: object, before: Sequence[int]) -> None:
        """Compare the copies after a statement; `before` has their versions before it."""
        versions = tuple(DeltaTable(path).version for path in self.paths)
        first, second = map(definition, self.paths)
        check_equal(first, second, "the definitions differ")
        self._compare_rows()
        if isinstance(statement, Write) and statement.mode == "append":
            self._compare_statistics(versions)
        if self.table.enables("enableChangeDataFeed"):
            self._compare_changes(statement, before, versions)
        if self.table.enables("enableRowTracking"):
            self._compare_row_ids()
        self._compare_selections()
        states = dict(zip(self.paths, versions, strict=True))
        self.draw.states.append((states, self.table))

    def _compare_statistics(self, versions: Sequence[int]) -> None:
        """Compare the statistics that both engines wrote; the protocol requires none but the number of records."""
        first, second = (added_statistics(path, version) for path, version in zip(self.paths, versions, strict=True))
        for part in ("min", "max", "nulls"):
            shared = (first[part].keys() & second[part].keys()) - self.table.identity
            check_equal({n: first[part][n] for n in shared}, {n: second[part][n] for n in shared}, f"other {part}")
        assert first["rows"] == second["rows"]

    def _compare_rows(self) -> None:
        delta_spark = self.engines.delta_spark
        delta_spark.send([readings.rows_sql(path) for path in self.paths])
        first, second = map(readings.rows_of, self.paths)
        theirs = [readings.answered(rows_or_raise(delta_spark.receive())) for _ in self.paths]
        for path, rows, answer in zip(self.paths, (first, second), theirs, strict=True):
            check_equal(rows, answer, f"the engines read different rows of {path[-1]}")
        if not self.table.identity:
            check_equal(first, second, "the rows of the copies differ")
        keys = DeltaTable(self.paths[0]).to_arrow(columns=[KEY])[KEY].to_pylist()
        self.draw.present_keys = sorted(keys)
        assert len(set(keys)) == len(keys)

    def _compare_changes(self, statement: object, before: Sequence[int], after: Sequence[int]) -> None:
        feeds = []
        for path, last, version in zip(self.paths, before, after, strict=True):
            if version == last or not _recorded(path, last + 1):
                feeds.append([])
                continue
            (answer,) = self.engines.delta_spark.all([readings.changes_sql(path, last + 1, version)])
            ours = readings.changes_of(path, last + 1, version)
            check_equal(ours, readings.answered(answer), f"the engines read different changes of {path[-1]}")
            feeds.append(ours)
        if not self.table.identity:
            if isinstance(statement, Restore):
                feeds = [_net(feed) for feed in feeds]
            check_equal(*feeds, "the change feeds of the copies differ")

    def _compare_row_ids(self) -> None:
        delta_spark = self.engines.delta_spark
        answers = delta_spark.all([readings.row_ids_sql(path) for path in self.paths])
        for path, answer in zip(self.paths, answers, strict=True):
            row_ids = readings.row_ids_of(path)
            theirs = {key: (row_id, version) for key, row_id, version in answer}
            check_equal(row_ids, theirs, f"the engines read different row ids of {path[-1]}")
            assert len({row_id for row_id, _ in row_ids.values()}) == len(row_ids), "two rows have one row id"
            known = self._row_ids[path]
            for key, (row_id, _) in row_ids.items():
                assert known.setdefault(key, row_id) == row_id, f"the row {key} of {path[-1]} has another row id"

    def _compare_selections(self) -> None:
        text = condition(self.rnd, self.table.comparable)
        delta_spark = self.engines.delta_spark
        delta_spark.send([readings.keys_sql(path, text) for path in self.paths])
        ours = [readings.keys_where(self.engines.spark, path, text) for path in self.paths]
        theirs = [sorted(key for (key,) in rows_or_raise(delta_spark.receive())) for _ in self.paths]
        assert ours[0] == ours[1] == theirs[0] == theirs[1], f"the keys where {text}: {ours} {theirs}"


def check_equal(first: Any, second: Any, problem: str) -> None:
    """Raise an error that shows the parts that differ."""
    if first == second:
        return
    if isinstance(first, list):
        both = Counter(first) & Counter(second)
        first, second = list((Counter(first) - both).elements()), list((Counter(second) - both).elements())
    elif isinstance(first, dict):
        keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
        first, second = ({key: side.get(key) for key in keys} for side in (first, second))
    raise AssertionError(f"{problem}:\n  {first}\n  {second}")


def _recorded(path: str, version: int) -> bool:
    """Whether the table had a change feed at a version."""
    return DeltaTable(path, version=version).metadata.configuration.get("delta.enableChangeDataFeed") == "true"


def _net(feed: list[str]) -> list[str]:
    """The changes without the rows that a version both deletes and inserts.

    A restore replaces whole files, so its feed depends on how each engine has distributed the rows over files.
    """
    counts: Counter[str] = Counter()
    for change in feed:
        *row, kind = json.loads(change)
        counts[json.dumps(row)] += {"insert": 1, "delete": -1}[kind]
    return sorted(f"{count} {row}" for row, count in counts.items() if count)
