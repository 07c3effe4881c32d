"""Two copies of a table. This library changes one copy, delta-spark changes the other, and both engines read both."""

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
from tests.support.differential.random_statements import RandomStatements
from tests.support.differential.statements import Checkpoint, Create, Restore, Statement, Write
from tests.support.differential.tables import KEY, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The Spark session of this library, and the session of delta-spark."""

    spark: SparkSession
    delta_spark: DeltaSpark

    def run_in_library(self, statement: Statement, path: str) -> str | None:
        """Run the statement with this library; returns the text of the error, or None."""
        try:
            statement.run(self.spark, path)
        except DeltaLiteError as error:
            return f"{type(error).__name__}: {error}"
        return None

    def run_in_both(
        self, statement: Statement, library_path: str, delta_spark_path: str
    ) -> tuple[str | None, str | None]:
        """Run the statement in both engines, each on its path; returns the error of each engine, or None."""
        texts = statement.sql(delta_spark_path)
        self.delta_spark.send(texts)  # delta-spark works at the same time as this library
        try:
            library_error = self.run_in_library(statement, library_path)
        finally:
            answers = [self.delta_spark.receive() for _ in texts]
        errors = [str(answer) for answer in answers if isinstance(answer, DeltaSparkError)]
        return library_error, errors[0] if errors else None


class Copies:
    """The two copies of a random table, and a journal of the statements so far."""

    def __init__(self, engines: Engines, folder: Path, seed: int) -> None:
        self.engines = engines
        self.rnd = Random(seed)
        self.random_statements = RandomStatements(rnd=self.rnd)
        self.paths = (str(folder / "a"), str(folder / "b"))
        self.journal: list[str] = [f"seed {seed}"]
        # For each copy: the first row id that each row had, by the row's key.
        self._first_row_ids: dict[str, dict[int, int]] = {path: {} for path in self.paths}

    @contextmanager
    def journal_in_errors(self) -> Iterator[None]:
        """Add the statements so far to each error that the block raises."""
        try:
            yield
        except Exception as error:
            raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *self.journal])) from error

    def create(self, table: Table) -> None:
        """Create the table with a random engine, and copy it."""
        self.table = table
        first, second = self.paths
        statement = Create(table=table)
        in_library = self.rnd.randrange(2) == 0
        self._add_to_journal(f"{'this library' if in_library else 'delta-spark'} on both copies", statement)
        if in_library:
            statement.run(self.engines.spark, first)
        else:
            for text in statement.sql(first):
                self.engines.delta_spark.sql(text)
        shutil.copytree(first, second)
        self._compare(statement, (-1, -1))

    def step(self) -> None:
        """Run a random statement on both copies, and compare them."""
        statement = self.random_statements.statement(self.table)
        library_path, delta_spark_path = self.rnd.sample(self.paths, 2)
        title = f"this library on {library_path[-1]}, delta-spark on {delta_spark_path[-1]}"
        self._add_to_journal(title, statement)
        versions_before = self._versions()
        errors = self.engines.run_in_both(statement, library_path, delta_spark_path)
        versions_after = self._versions()
        if any(errors):
            self.journal.append(f"-- rejected: {errors}")
            assert all(errors), f"only one engine rejected the statement: {errors}"
            assert versions_after == versions_before, "a rejected statement changed a table"
            return
        if isinstance(statement, Checkpoint):
            assert versions_after == versions_before
        else:
            self.table = statement.after(self.table)
        self._compare(statement, versions_before)

    def _versions(self) -> tuple[int, ...]:
        return tuple(DeltaTable(path).version for path in self.paths)

    def _add_to_journal(self, title: str, statement: Statement) -> None:
        texts = [text.replace(self.paths[1], "T") for text in statement.sql(self.paths[1])] or [repr(statement)]
        self.journal.append(f"-- {title}\n" + ";\n".join(texts) + ";")

    def _compare(self, statement: object, versions_before: Sequence[int]) -> None:
        """Compare the copies after a statement. `versions_before` are their versions before it, -1 for a new table."""
        versions = self._versions()
        first, second = map(definition, self.paths)
        check_equal(first, second, "the definitions differ")
        self._compare_rows()
        if isinstance(statement, Write) and statement.mode == "append":
            self._compare_statistics(versions)
        if self.table.enables("enableChangeDataFeed"):
            self._compare_changes(statement, versions_before, versions)
        if self.table.enables("enableRowTracking"):
            self._compare_row_ids()
        self._compare_selections()
        version_by_path = dict(zip(self.paths, versions, strict=True))
        self.random_statements.states.append((version_by_path, self.table))

    def _compare_statistics(self, versions: Sequence[int]) -> None:
        """Compare the row counts, and the bounds and null counts that both engines wrote. An engine may omit these."""
        first, second = (added_statistics(path, version) for path, version in zip(self.paths, versions, strict=True))
        for statistic in ("min", "max", "nulls"):
            names = (first[statistic].keys() & second[statistic].keys()) - self.table.identity_names
            check_equal(
                {name: first[statistic][name] for name in names},
                {name: second[statistic][name] for name in names},
                f"the engines wrote different statistics ({statistic})",
            )
        assert first["rows"] == second["rows"]

    def _compare_rows(self) -> None:
        delta_spark = self.engines.delta_spark
        delta_spark.send([readings.rows_sql(path) for path in self.paths])
        library_rows = [readings.rows_of(path) for path in self.paths]
        delta_spark_rows = [readings.json_texts(rows_or_raise(delta_spark.receive())) for _ in self.paths]
        for path, by_library, by_delta_spark in zip(self.paths, library_rows, delta_spark_rows, strict=True):
            check_equal(by_library, by_delta_spark, f"the engines read different rows of {path[-1]}")
        if not self.table.identity_names:
            check_equal(*library_rows, "the rows of the copies differ")
        keys = DeltaTable(self.paths[0]).to_arrow(columns=[KEY])[KEY].to_pylist()
        self.random_statements.present_keys = sorted(keys)
        assert len(set(keys)) == len(keys)

    def _compare_changes(
        self, statement: object, versions_before: Sequence[int], versions_after: Sequence[int]
    ) -> None:
        feeds = []
        for path, version_before, version_after in zip(self.paths, versions_before, versions_after, strict=True):
            first = version_before + 1
            if version_after == version_before or not _has_change_feed(path, first):
                feeds.append([])
                continue
            (answer,) = self.engines.delta_spark.sql_all([readings.changes_sql(path, first, version_after)])
            feed = readings.changes_of(path, first, version_after)
            check_equal(feed, readings.json_texts(answer), f"the engines read different changes of {path[-1]}")
            feeds.append(feed)
        if not self.table.identity_names:
            if isinstance(statement, Restore):
                feeds = [_net_changes(feed) for feed in feeds]
            check_equal(*feeds, "the change feeds of the copies differ")

    def _compare_row_ids(self) -> None:
        delta_spark = self.engines.delta_spark
        answers = delta_spark.sql_all([readings.row_ids_sql(path) for path in self.paths])
        for path, answer in zip(self.paths, answers, strict=True):
            row_ids = readings.row_ids_of(path)
            by_delta_spark = {key: (row_id, version) for key, row_id, version in answer}
            check_equal(row_ids, by_delta_spark, f"the engines read different row ids of {path[-1]}")
            assert len({row_id for row_id, _ in row_ids.values()}) == len(row_ids), "two rows have one row id"
            first_row_ids = self._first_row_ids[path]
            for key, (row_id, _) in row_ids.items():
                first_row_id = first_row_ids.setdefault(key, row_id)
                assert row_id == first_row_id, f"the row id of the row {key} of {path[-1]} has changed"

    def _compare_selections(self) -> None:
        text = condition(self.rnd, self.table.comparable)
        delta_spark = self.engines.delta_spark
        delta_spark.send([readings.keys_sql(path, text) for path in self.paths])
        keys_by_reader = [readings.keys_where(self.engines.spark, path, text) for path in self.paths]
        keys_by_reader += [sorted(key for (key,) in rows_or_raise(delta_spark.receive())) for _ in self.paths]
        all_equal = all(keys == keys_by_reader[0] for keys in keys_by_reader)
        assert all_equal, f"the engines select different rows where {text}: {keys_by_reader}"


def check_equal(first: Any, second: Any, problem: str) -> None:
    """Raise `AssertionError` with the `problem` and the differences if the two values are not equal."""
    if first == second:
        return
    if isinstance(first, list):
        common = Counter(first) & Counter(second)
        first, second = list((Counter(first) - common).elements()), list((Counter(second) - common).elements())
    elif isinstance(first, dict):
        keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
        first, second = ({key: side.get(key) for key in keys} for side in (first, second))
    raise AssertionError(f"{problem}:\n  {first}\n  {second}")


def _has_change_feed(path: str, version: int) -> bool:
    """Whether the change feed of the table is enabled in a version."""
    return DeltaTable(path, version=version).metadata.configuration.get("delta.enableChangeDataFeed") == "true"


def _net_changes(feed: list[str]) -> list[str]:
    """The changes of a feed without the rows that it both deletes and inserts.

    The feed of a restore contains all rows of the replaced files. The engines distribute rows over files differently.
    """
    counts: Counter[str] = Counter()
    for change in feed:
        *row, kind = json.loads(change)
        counts[json.dumps(row)] += {"insert": 1, "delete": -1}[kind]
    return sorted(f"{count} {row}" for row, count in counts.items() if count)
