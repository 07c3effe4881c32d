"""Names in JSON objects that Spark cannot assign to one column: names that occur twice, or with another spelling.

Spark resolves names without regard to case, but its JSON reader distinguishes case. If a name occurs twice, the reader
keeps only the last value. So a record with such a name would lose a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType


def problem_of_names(text: Column, columns: StructType, options: Mapping[str, str]) -> Column:
    """Return the problem of the names in an object, as a sentence; null without a problem, or without an object.

    Args:
        text: the JSON text of the object.
        columns: the columns, in the spelling in which Spark reads them.
        options: the options of Spark's JSON functions.
    """
    return _Names(options).problem_in(text, columns)


class _Names:
    """Finds the problem of names in JSON texts. `options` are those of Spark's JSON functions."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def problem_in(self, text: Column, data_type: DataType) -> Column:
        """Return the problem of the names in a text that Spark reads with the type, null without a problem."""
        match data_type:
            case StructType():
                return _apply_to_computed(
                    self._entries(text), lambda entries: self._problem_in_struct(entries, data_type)
                )
            case MapType(_, value):
                return _apply_to_computed(self._entries(text), lambda entries: self._problem_in_map(entries, value))
            case ArrayType(element) if _has_names(element):
                items = F.from_json(text, "array<string>", self._options)
                return _first_problem(F.transform(items, lambda item: self.problem_in(item, element)))
            case _:
                return _no_problem()

    def _entries(self, text: Column) -> Column:
        """Return the members of an object with their texts. Spark keeps names that occur twice."""
        return F.map_entries(F.from_json(text, "map<string,string>", self._options))

    def _problem_in_struct(self, entries: Column, columns: StructType) -> Column:
        names = F.transform(entries, lambda entry: entry["key"])
        lower_names = F.transform(names, F.lower)
        read_names, read_lower_names = (F.array(*map(F.lit, texts)) for texts in (columns.names, _lower(columns)))
        other_spellings = F.filter(
            names,
            lambda name: F.array_contains(read_lower_names, F.lower(name)) & ~F.array_contains(read_names, name),
        )
        spelling_problem = F.concat(
            F.lit("Other records write the name '"), F.get(other_spellings, F.lit(0)), F.lit("' in another case.")
        )
        members = [
            self.problem_in(_value_of(entries, field.name), field.type) for field in columns if _has_names(field.type)
        ]
        return F.coalesce(_repetition(names, lower_names), spelling_problem, *members, _no_problem())

    def _problem_in_map(self, entries: Column, value: DataType) -> Column:
        names = F.transform(entries, lambda entry: entry["key"])
        if not _has_names(value):
            return _repetition(names, names)
        in_values = _first_problem(F.transform(entries, lambda entry: self.problem_in(entry["value"], value)))
        return F.coalesce(_repetition(names, names), in_values)


def _repetition(names: Column, keys: Column) -> Column:
    """Return the problem of the first name whose key another name has too; null if there is no such name."""

    def is_repeated(_: Column, position: Column) -> Column:
        key = F.get(keys, position)
        return F.size(F.filter(keys, lambda other: other == key)) > 1

    name = F.get(F.filter(names, is_repeated), F.lit(0))
    return F.when(
        F.size(F.array_distinct(keys)) < F.size(keys),
        F.concat(F.lit("The record has the name '"), name, F.lit("' twice in an object.")),
    )


def _apply_to_computed(value: Column, function: Callable[[Column], Column]) -> Column:
    """Return the result of a function on a value. Spark computes the value once, even if the function uses it often."""
    return F.get(F.transform(F.array(value), function), F.lit(0))


def _first_problem(problems: Column) -> Column:
    return F.get(F.filter(problems, lambda problem: problem.isNotNull()), F.lit(0))


def _value_of(entries: Column, name: str) -> Column:
    return F.get(F.filter(entries, lambda entry: entry["key"] == name), F.lit(0))["value"]


def _has_names(data_type: DataType) -> bool:
    match data_type:
        case StructType() | MapType():
            return True
        case ArrayType(element):
            return _has_names(element)
        case _:
            return False


def _lower(columns: StructType) -> list[str]:
    return [name.lower() for name in columns.names]


def _no_problem() -> Column:
    return F.lit(None).cast("string")
