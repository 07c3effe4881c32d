"""Checks of parameters when a DAG file is parsed, so that a CI test that imports the DAGs finds the errors.

The request's constructor is the gate, as it is when the task runs. What is not known before the task runs waits: text
with template markers, names of template files, callables, XComArgs, values of mapped tasks, and the parameters of a
mapped operator. Such a value stands for samples of its type, and a request is refused only if the constructor refuses
it for every sample: `mode="append"` with a templated `replace_where` is refused, a templated `mode` is not.

An operator or sensor that has `CheckedWhenParsed` as its metaclass implements `check_constants`. Nothing is looked up
and nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from itertools import islice, product
from math import prod
from os import PathLike
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from airflow.sdk.bases.operator import BaseOperatorMeta

from airflow_provider_deltalite.rendered import fitted, matching_type, opened, refuse_wrong_keys
from deltalite.errors import InvalidRequestError

T = TypeVar("T")

_MARKERS = ("{{", "{%", "{#")
_DELIMITERS = ("variable_start_string", "block_start_string", "comment_start_string", "line_statement_prefix")
# Native rendering makes a list, a mapping or a text without its quotes of a text that begins so.
_LITERALS = ("[", "(", "{", "'", '"')
_MOST_SAMPLES = 64
_MOST_COMBINATIONS = 1024
_WHOLE_NUMBERS = (1, 0, 2**31)
# Parameters whose rules go by their text, with the texts that the rules name.
_TEXTS_WITH_RULES = {"format": ("delta",)}


class CheckedWhenParsed(BaseOperatorMeta):
    """Metaclass that calls `check_constants` of a task after its whole constructor has run."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  the first argument of a metaclass is a class
        """Make a task, and name the DAG and the task in the error of a parameter that cannot be right."""
        task = super().__call__(*args, **kwargs)
        if kwargs.get("_airflow_from_mapped"):  # made by a worker for one mapped task, which checks what it rendered
            return task
        try:
            task.check_constants(Constants.of(task))
        except InvalidRequestError as error:
            raise of_task(task, error) from error
        return task


def of_task(task: Any, error: InvalidRequestError) -> InvalidRequestError:
    """The error with a text that names the task and its DAG."""
    dag = task.get_dag()
    where = f"Task '{task.task_id}'" + (f" of DAG '{dag.dag_id}'" if dag else "")
    return type(error)(f"{where}: {error.problem}", remedy=error.remedy)


class UndecidedError(Exception):
    """Whether the constants are right depends on values that are not known yet."""


@dataclass(slots=True, kw_only=True)
class Constants:
    """Tells constants of one task from values that wait.

    `truncated` becomes true if a value has more samples than are tried, so that no refusal of them all is certain.
    `names_file` tells of a parameter and its text whether the text is the name of a template file.
    `texts` are the constant texts among the parameters: a rule may compare one with a text that waits.
    """

    names_file: Callable[[str, str], bool]
    markers: tuple[str, ...]
    truncated: bool = field(default=False, init=False)
    texts: tuple[str, ...] = field(default=(), init=False)

    @classmethod
    def of(cls, task: Any) -> Constants:
        """The rules of a task: its template files, and the markers of its DAG's templates."""
        dag = task.get_dag()
        settings = getattr(dag, "jinja_environment_kwargs", None) or {}
        changed = tuple(settings[name] for name in _DELIMITERS if settings.get(name))
        return cls(names_file=getattr(task, "names_file", _names_no_file), markers=(*_MARKERS, *changed))

    def waits(self, value: object, parameter: str = "") -> bool:
        """Whether a value of a parameter, without its members, is known only when the task runs."""
        match value:
            case str():
                marked = any(marker in value for marker in self.markers)
                return marked or self.names_file(parameter, value) or _is_literal(value)
            case None | bool() | int() | float() | date() | PathLike() | Mapping() | list() | tuple() | set():
                return False
            case _:
                return not hasattr(value, "__dataclass_fields__")

    def check(self, values: Mapping[str, object], wanted: type[T], *, never_empty: Collection[str] = ()) -> T | None:
        """Return a `wanted` dataclass that may come out of these parameters; None if that cannot be told yet.

        :param values: The parameters by their names.
        :param wanted: The dataclass.
        :param never_empty: Parameters that are refused if a template makes them None.
        :raises InvalidRequestError: No such dataclass can come out of them.
        """
        self.texts = tuple(
            text for name, text in values.items() if isinstance(text, str) and not self.waits(text, name)
        )
        try:
            samples: list[T] = self._records("", values, wanted, never_empty)
        except UndecidedError:
            return None
        return samples[0]

    def check_value(self, name: str, value: object, wanted: Any) -> None:
        """Raise `InvalidRequestError` if no value of the annotation `wanted` can come out of a parameter."""
        try:
            self._samples(name, value, wanted)
        except UndecidedError:
            return

    def _samples(self, name: str, value: object, wanted: Any) -> list[Any]:
        """Values of the annotation that the parameter may have when the task runs.

        Raises:
            InvalidRequestError: there are none.
            UndecidedError: they cannot be listed.
        """
        if self.waits(value, name):
            more_texts = _TEXTS_WITH_RULES.get(name.rpartition(".")[2], () if "." in name else self.texts)
            return list(_of_type(value, wanted, more_texts))
        kind = matching_type(value, wanted)
        value = opened(value, (Mapping, list)) if isinstance(value, str) and _is_container(kind) else value
        match value:
            case Mapping() if get_origin(kind) is Mapping and get_args(kind)[1] is not object:
                wanted_member = get_args(kind)[1]
                members = [self._samples(f"{name}.{key}", one, wanted_member) for key, one in value.items()]
                keys = [str(key) for key in value]
                return [dict(zip(keys, chosen, strict=True)) for chosen in self._combined(members)]
            case Mapping() if get_origin(kind) is None and hasattr(kind, "__dataclass_fields__"):
                return self._records(name, value, kind)
            case list() | tuple() if get_origin(kind) in (tuple, Sequence):
                wanted_member = get_args(kind)[0]
                members = [self._samples(f"{name}[{at}]", one, wanted_member) for at, one in enumerate(value)]
                return list(self._combined(members))
            case _:
                return [fitted(name, value, wanted)]

    def _records(
        self, name: str, values: Mapping[Any, object], wanted: type, never_empty: Collection[str] = ()
    ) -> list[Any]:
        """The dataclasses that may come out of a mapping of its fields. Raises as `_samples`."""
        refuse_wrong_keys(name, values, wanted)
        hints = get_type_hints(wanted)
        undecided: UndecidedError | None = None
        samples: dict[str, list[Any]] = {}
        for key, value in values.items():
            member = f"{name}.{key}" if name else key
            try:
                samples[key] = self._samples(member, value, hints[key])
            except UndecidedError as error:
                undecided = error
                continue
            if self.waits(value, member) and key in never_empty:
                samples[key] = [sample for sample in samples[key] if sample is not None]
        if undecided is not None:
            raise undecided
        return self._constructed(name, samples, wanted, most=_MOST_SAMPLES if name else 1)

    def _constructed(self, name: str, samples: Mapping[str, list[Any]], wanted: type, *, most: int) -> list[Any]:
        """The dataclasses that the constructor accepts, up to `most`. Raises as `_samples`."""
        accepted: list[Any] = []
        first_error: InvalidRequestError | None = None
        for number, chosen in enumerate(product(*samples.values())):
            if len(accepted) == most or number == _MOST_COMBINATIONS:
                self.truncated = True
                break
            try:
                accepted.append(wanted(**dict(zip(samples, chosen, strict=True))))
            except InvalidRequestError as error:
                first_error = first_error or error
        if accepted:
            return accepted
        if first_error is None or self.truncated:
            raise UndecidedError
        if not name:
            raise first_error
        raise type(first_error)(f"{name}: {first_error.problem}", remedy=first_error.remedy) from first_error

    def _combined(self, members: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Combinations of the members' samples, the first of each together first."""
        self.truncated = self.truncated or prod(map(len, members)) > _MOST_SAMPLES
        return islice(product(*members), _MOST_SAMPLES)


def _of_type(value: object, wanted: Any, more_texts: Sequence[str]) -> Iterator[Any]:
    """Samples of an annotation for a value that waits; a text is its own first sample."""
    kinds = get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)
    for kind in kinds:
        if kind is str:
            yield from (value if isinstance(value, str) else "a text", *more_texts)
        elif kind is bool:
            yield from (True, False)
        elif kind in (int, float):
            yield from map(kind, _WHOLE_NUMBERS)
        elif kind is NoneType:
            yield None
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            yield from kind
        else:  # a list, a mapping or a record: too many to list
            raise UndecidedError


def _names_no_file(_parameter: str, _text: str) -> bool:
    return False


def _is_container(kind: Any) -> bool:
    return get_origin(kind) in (Mapping, tuple, Sequence) or hasattr(kind, "__dataclass_fields__")


def _is_literal(text: str) -> bool:
    """Whether native rendering may make another value than a number or a truth of a text without markers."""
    return text.lstrip().startswith(_LITERALS) or text.strip() == "None"
