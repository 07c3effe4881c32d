"""Checks parameters when a DAG file is parsed, so that a CI test that imports the DAGs finds the errors.

The request's constructor checks the values, as it does when the task runs. Some values are unknown until then:

- text with template markers, and names of template files;
- callables and XComArgs;
- values of mapped tasks, and the parameters of a mapped operator.

An unknown value is replaced by samples of its type. The request is rejected only if the constructor rejects every
sample. So `mode="append"` with a templated `replace_where` is rejected, and a templated `mode` is not.

An operator or sensor with the metaclass `CheckedWhenParsed` implements `check_constants`. The checks make no requests,
and import no slow modules.
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

from airflow_provider_deltalite.rendered import convert_value, matching_type, parsed_json, reject_wrong_keys
from deltalite.errors import InvalidRequestError

T = TypeVar("T")

_MARKERS = ("{{", "{%", "{#")
_DELIMITERS = ("variable_start_string", "block_start_string", "comment_start_string", "line_statement_prefix")
# Native rendering turns a text that begins with one of these into a list, a mapping, or a text without its quotes.
_LITERAL_STARTS = ("[", "(", "{", "'", '"')
_MAX_SAMPLES = 64
_MAX_COMBINATIONS = 1024
_NUMBER_SAMPLES = (1, 0, 2**31)
# Parameters with rules that depend on their text, and the texts that these rules name or accept.
_TEXTS_WITH_RULES = {
    "format": ("delta", "csv"),
    "timestamp": ("2026-01-01T00:00:00Z",),
    "as_of": ("2026-01-01T00:00:00Z",),
}
# Each rule for an option of a source accepts one of these texts (`requests.csv_options`, `requests.copy`).
_OPTION_TEXTS = (",", "STOP_AT_DELIMITER")


class CheckedWhenParsed(BaseOperatorMeta):
    """Metaclass that calls `check_constants` of a task after its complete constructor has run."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:  # noqa: N805  the first argument of a metaclass is a class
        """Make a task and check its constants. An error names the task and its DAG."""
        task = super().__call__(*args, **kwargs)
        if kwargs.get("_airflow_from_mapped"):  # a worker makes this task, and checks its rendered values
            return task
        try:
            task.check_constants(Constants.of(task))
        except InvalidRequestError as error:
            raise with_task_name(error, task) from error
        return task


def with_task_name(error: InvalidRequestError, task: Any) -> InvalidRequestError:
    """Return the error with a text that begins with the task and its DAG."""
    dag = task.get_dag()
    task_text = f"Task '{task.task_id}'" + (f" of DAG '{dag.dag_id}'" if dag else "")
    return type(error)(f"{task_text}: {error.problem}", remedy=error.remedy)


class UndecidedError(Exception):
    """The check depends on values that are not known yet."""


@dataclass(slots=True, kw_only=True)
class Constants:
    """Separates a task's constants from values that are unknown until the task runs.

    Attributes:
        names_file: Takes a parameter and its text. Returns whether the text is the name of a template file.
        markers: The texts that begin a template, a block or a comment.
        is_truncated: Whether a value has more samples than were tried. If so, the parameters are not rejected.
        texts: The constant texts among the parameters. A rule may compare one with an unknown text.
    """

    names_file: Callable[[str, str], bool]
    markers: tuple[str, ...]
    is_truncated: bool = field(default=False, init=False)
    texts: tuple[str, ...] = field(default=(), init=False)

    @classmethod
    def of(cls, task: Any) -> Constants:
        """Return the constants of a task, with its rule for template files and its DAG's template markers."""
        dag = task.get_dag()
        settings = getattr(dag, "jinja_environment_kwargs", None) or {}
        dag_markers = tuple(settings[name] for name in _DELIMITERS if settings.get(name))
        return cls(names_file=getattr(task, "names_file", _names_no_file), markers=(*_MARKERS, *dag_markers))

    def is_unknown_at_parse_time(self, value: object, parameter: str = "") -> bool:
        """Whether a value, not counting its members, is unknown until the task runs."""
        match value:
            case str():
                has_marker = any(marker in value for marker in self.markers)
                return has_marker or self.names_file(parameter, value) or _is_literal(value)
            case None | bool() | int() | float() | date() | PathLike() | Mapping() | list() | tuple() | set():
                return False
            case _:
                return not hasattr(value, "__dataclass_fields__")

    def check(self, values: Mapping[str, object], cls: type[T], *, never_empty: Collection[str] = ()) -> T | None:
        """Return a possible instance of `cls` for these parameters; None if the check needs unknown values.

        :param values: The parameters by their names.
        :param cls: The dataclass.
        :param never_empty: Parameters that are rejected at run time if a template renders them as None.
        :raises InvalidRequestError: The constructor rejects the parameters for every sample.
        """
        self.texts = tuple(
            text
            for name, text in values.items()
            if isinstance(text, str) and not self.is_unknown_at_parse_time(text, name)
        )
        try:
            samples: list[T] = self._record_samples("", values, cls, never_empty)
        except UndecidedError:
            return None
        return samples[0]

    def check_value(self, name: str, value: object, annotation: Any) -> None:
        """Raise `InvalidRequestError` if the parameter cannot become a value of the annotation."""
        try:
            self._samples(name, value, annotation)
        except UndecidedError:
            return

    def _samples(self, name: str, value: object, annotation: Any) -> list[Any]:
        """Return sample values of the annotation that the parameter may have when the task runs.

        Raises:
            InvalidRequestError: the parameter has no such value.
            UndecidedError: there are too many such values to list.
        """
        if self.is_unknown_at_parse_time(value, name):
            return list(_samples_of_type(value, annotation, self._more_texts(name)))
        kind = matching_type(value, annotation)
        value = parsed_json(value, (Mapping, list)) if isinstance(value, str) and _is_container(kind) else value
        match value:
            case Mapping() if get_origin(kind) is Mapping and get_args(kind)[1] is not object:
                member_kind = get_args(kind)[1]
                samples = [self._samples(f"{name}.{key}", member, member_kind) for key, member in value.items()]
                keys = [str(key) for key in value]
                return [dict(zip(keys, combination, strict=True)) for combination in self._combinations(samples)]
            case Mapping() if get_origin(kind) is None and hasattr(kind, "__dataclass_fields__"):
                return self._record_samples(name, value, kind)
            case list() | tuple() if get_origin(kind) in (tuple, Sequence):
                member_kind = get_args(kind)[0]
                samples = [self._samples(f"{name}[{index}]", member, member_kind) for index, member in enumerate(value)]
                return list(self._combinations(samples))
            case _:
                return [convert_value(name, value, annotation)]

    def _more_texts(self, name: str) -> Sequence[str]:
        """Return texts that an unknown parameter may have, beside the text of its template."""
        parent, _, member = name.rpartition(".")
        if parent.endswith(".options"):
            return _OPTION_TEXTS
        return _TEXTS_WITH_RULES.get(member, () if parent else self.texts)

    def _record_samples(
        self, name: str, values: Mapping[Any, object], cls: type, never_empty: Collection[str] = ()
    ) -> list[Any]:
        """Return sample dataclasses, made from a mapping of their fields. The errors are those of `_samples`."""
        reject_wrong_keys(name, values, cls)
        hints = get_type_hints(cls)
        undecided_error: UndecidedError | None = None
        samples: dict[str, list[Any]] = {}
        for key, value in values.items():
            member = f"{name}.{key}" if name else key
            try:
                samples[key] = self._samples(member, value, hints[key])
            except UndecidedError as error:
                undecided_error = error
                continue
            if self.is_unknown_at_parse_time(value, member) and key in never_empty:
                samples[key] = [sample for sample in samples[key] if sample is not None]
        if undecided_error is not None:
            raise undecided_error
        return self._construct(name, samples, cls, limit=_MAX_SAMPLES if name else 1)

    def _construct(self, name: str, samples: Mapping[str, list[Any]], cls: type, *, limit: int) -> list[Any]:
        """Return the dataclasses that the constructor accepts, up to `limit`. The errors are those of `_samples`."""
        accepted: list[Any] = []
        first_error: InvalidRequestError | None = None
        for number, combination in enumerate(product(*samples.values())):
            if len(accepted) == limit or number == _MAX_COMBINATIONS:
                self.is_truncated = True
                break
            try:
                accepted.append(cls(**dict(zip(samples, combination, strict=True))))
            except InvalidRequestError as error:
                first_error = first_error or error
        if accepted:
            return accepted
        if first_error is None or self.is_truncated:
            raise UndecidedError
        if not name:
            raise first_error
        raise type(first_error)(f"{name}: {first_error.problem}", remedy=first_error.remedy) from first_error

    def _combinations(self, samples: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """Return combinations of the members' samples; the first has the first sample of each member."""
        self.is_truncated = self.is_truncated or prod(map(len, samples)) > _MAX_SAMPLES
        return islice(product(*samples), _MAX_SAMPLES)


def _samples_of_type(value: object, annotation: Any, more_texts: Sequence[str]) -> Iterator[Any]:
    """Yield samples of an annotation for an unknown value. A text is its own first sample."""
    kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    for kind in kinds:
        if kind is str:
            yield from (value if isinstance(value, str) else "a text", *more_texts)
        elif kind is bool:
            yield from (True, False)
        elif kind in (int, float):
            yield from map(kind, _NUMBER_SAMPLES)
        elif kind is NoneType:
            yield None
        elif isinstance(kind, type) and issubclass(kind, StrEnum):
            yield from kind
        else:  # a list, a mapping or a dataclass has too many samples
            raise UndecidedError


def _names_no_file(_parameter: str, _text: str) -> bool:
    return False


def _is_container(kind: Any) -> bool:
    return get_origin(kind) in (Mapping, tuple, Sequence) or hasattr(kind, "__dataclass_fields__")


def _is_literal(text: str) -> bool:
    """Whether native rendering may turn a text without markers into a value other than a number or a boolean."""
    return text.lstrip().startswith(_LITERAL_STARTS) or text.strip() == "None"
