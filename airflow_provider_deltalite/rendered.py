"""Converts rendered parameters to the types that a request declares.

A rendered parameter can have another type than the author meant. `"{{ params.n }}"` becomes the text `7`, or the number
7 under `render_template_as_native_obj`. Native rendering also makes a dictionary of the JSON `'{"a": 1}'`, and None of
an empty text.

So each value is converted, without loss, to the type of its field in the request's dataclass. An error names the
parameter (`when_matched[1].update`). A structure may also be given as JSON text, which the template filter `tojson`
makes. This module checks types only. The request's constructor checks whether the values are valid together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import date
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from deltalite.errors import InvalidRequestError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

_BOOLEANS = {"true": True, "false": False}
_NATIVE_HELP = "If a template renders it, use the filter `tojson` there, or set render_template_as_native_obj=True."
_OTHER_TASK_HELP = "If another task returns it, check what that task returned."


def parse_record(name: str, values: object, cls: type[T]) -> T:
    """Return an instance of the dataclass `cls`, made from a mapping of its fields or from such a mapping as JSON text.

    An instance of `cls` is returned unchanged. `name` is the name of the values in an error message.

    Raises:
        InvalidRequestError: `values` is not a mapping, a key is unknown or missing, a value has the wrong type, or the
            dataclass rejects the values.
    """
    if isinstance(values, cls):
        return values
    values = parsed_json(values, Mapping)
    if not isinstance(values, Mapping):
        raise InvalidRequestError(f"{name} is {values!r}, not a mapping.", remedy=_NATIVE_HELP)
    reject_wrong_keys(name, values, cls)
    hints = get_type_hints(cls)
    arguments = {
        key: convert_value(f"{name}.{key}" if name else key, value, hints[key]) for key, value in values.items()
    }
    try:
        return cls(**arguments)
    except InvalidRequestError as error:
        if not name:
            raise
        raise type(error)(f"{name}: {error.problem}", remedy=error.remedy) from error


def convert_value(name: str, value: object, annotation: Any) -> Any:
    """Convert a value to the type of an annotation: a scalar, an enumeration, a list, a mapping or a dataclass.

    Raises:
        InvalidRequestError: the value has another type, and the conversion would lose information. For a dataclass, see
            `parse_record`.
    """
    if isinstance(annotation, UnionType) and value is None:
        return None
    annotation = matching_type(value, annotation)
    match get_origin(annotation) or annotation:
        case kind if kind is Mapping:
            return _mapping(name, value, get_args(annotation)[1])
        case kind if kind in (tuple, Sequence):
            return _list(name, value, get_args(annotation)[0])
        case kind if kind is bool:
            return _boolean(name, value)
        case kind if kind is int:
            return _integer(name, value)
        case kind if kind is float:
            return _number(name, value)
        case kind if kind is str:
            return _text(name, value)
        case kind if issubclass(kind, StrEnum):
            return _choice(name, value, kind)
        case _:
            return parse_record(name, value, annotation)


def parsed_json(value: object, kind: type | tuple[type, ...]) -> object:
    """Parse a JSON text if its value has the type `kind`; any other value is returned unchanged."""
    if not isinstance(value, str):
        return value
    try:
        parsed: object = json.loads(value)
    except ValueError:
        return value
    return parsed if isinstance(parsed, kind) else value


def matching_type(value: object, annotation: Any) -> Any:
    """Return the member of a union that fits a value: a mapping type for a mapping, a list type for a list.

    If no member fits, return the first one. An annotation that is not a union is returned unchanged.
    """
    if not isinstance(annotation, UnionType):
        return annotation
    types = [member for member in get_args(annotation) if member is not NoneType]
    kind = _kind_of_collection(value)
    return next((member for member in types if get_origin(member) is kind), types[0])


def _kind_of_collection(value: object) -> type | None:
    """Return the origin of the annotation for a value: `Mapping`, `tuple`, or None for another value."""
    parsed_value = parsed_json(value, (Mapping, list))
    if isinstance(parsed_value, Mapping):
        return Mapping
    is_list = isinstance(parsed_value, Sequence) and not isinstance(parsed_value, str | bytes)
    return tuple if is_list else None


def reject_wrong_keys(name: str, values: Mapping[Any, object], cls: type) -> None:
    """Raise `InvalidRequestError` if a mapping has an unknown key, or lacks a required field of the dataclass."""
    known_keys = [field.name for field in fields(cls)]
    help_text = f"Known keys are {', '.join(known_keys)}."
    for key in values:
        if key not in known_keys:
            raise InvalidRequestError(f"{name} has the unknown key '{key}'.", remedy=help_text)
    for field in fields(cls):
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidRequestError(f"{name} has no '{field.name}'.", remedy=help_text)


def _mapping(name: str, value: object, annotation: Any) -> dict[str, Any]:
    if value is None:
        return {}
    value = parsed_json(value, Mapping)
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"{name} is {value!r}, not a mapping.", remedy=_NATIVE_HELP)
    if annotation is object:  # the request checks the types itself, and accepts no dates
        return {str(key): member.isoformat() if isinstance(member, date) else member for key, member in value.items()}
    return {str(key): convert_value(f"{name}.{key}", member, annotation) for key, member in value.items()}


def _list(name: str, value: object, annotation: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    value = parsed_json(value, list)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        example = "['a', 'b']" if annotation is str else "[{...}, {...}]"
        raise InvalidRequestError(f"{name} is {value!r}, not a list.", remedy=f"Write {example}. {_NATIVE_HELP}")
    return tuple(convert_value(f"{name}[{index}]", member, annotation) for index, member in enumerate(value))


def _boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _BOOLEANS:
        return _BOOLEANS[value.strip().lower()]
    raise InvalidRequestError(f"{name} is {value!r}, not true or false.", remedy="Give True or False.")


def _integer(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise InvalidRequestError(
        f"{name} is {value!r}, not a whole number.",
        remedy=_OTHER_TASK_HELP,
    )


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    raise InvalidRequestError(
        f"{name} is {value!r}, not a number.",
        remedy=_OTHER_TASK_HELP,
    )


def _text(name: str, value: object) -> str:
    """Return the text that the author wrote. A value that native rendering has parsed becomes text again."""
    match value:
        case str():
            return value
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case date():
            return value.isoformat()
        case os.PathLike():
            return os.fsdecode(value)
        case dict() | list():
            return json.dumps(value)
        case _:
            raise InvalidRequestError(f"{name} is {value!r}, not a text.", remedy="Give a text.")


def _choice(name: str, value: object, choices: type[E]) -> E:
    try:
        return choices(str(value))
    except ValueError:
        raise InvalidRequestError(
            f"{name} is {value!r}.", remedy=f"Choose one of {', '.join(repr(str(member)) for member in choices)}."
        ) from None
