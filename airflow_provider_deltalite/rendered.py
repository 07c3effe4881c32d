"""From what a template left behind to the values that a request wants.

Rendered parameters come in any type: `"{{ params.n }}"` is the text `7`, the number 7 under
`render_template_as_native_obj`, and there the JSON in `'{"a": 1}'` is a dictionary and an empty text is None. Each
value is therefore fitted to the type that the request's dataclass declares for it, without loss, or refused with the
parameter's name (`when_matched[1].update`). A structure may also come as the text of its JSON, which is what `tojson`
makes of it in a template. Only the type is decided here; whether the values make sense together is the request's own
question.
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

_TRUTH = {"true": True, "false": False}
_NATIVE_HELP = (
    "Where a template makes it, let the template make JSON (`tojson`), or set render_template_as_native_obj=True."
)


def record(name: str, values: object, wanted: type[T]) -> T:
    """A `wanted` dataclass from a mapping of its fields; a field that already has a dataclass's type is kept.

    Raises:
        InvalidRequestError: not a mapping, an unknown or missing key, a value of a type that does not fit, or values
            that make no sense together.
    """
    if isinstance(values, wanted):
        return values
    values = opened(values, Mapping)
    if not isinstance(values, Mapping):
        raise InvalidRequestError(f"{name} is {values!r}, not a mapping.", remedy=_NATIVE_HELP)
    refuse_wrong_keys(name, values, wanted)
    hints = get_type_hints(wanted)
    fit = {key: fitted(f"{name}.{key}" if name else key, value, hints[key]) for key, value in values.items()}
    try:
        return wanted(**fit)
    except InvalidRequestError as error:
        if not name:
            raise
        raise type(error)(f"{name}: {error.problem}", remedy=error.remedy) from error


def fitted(name: str, value: object, wanted: Any) -> Any:
    """`value` as the annotation `wanted` says: a scalar, an enumeration, a list, a mapping or a record.

    Raises:
        InvalidRequestError: the value cannot be of that type without loss.
    """
    if isinstance(wanted, UnionType) and value is None:
        return None
    wanted = matching_type(value, wanted)
    match get_origin(wanted) or wanted:
        case kind if kind is Mapping:
            return _mapping(name, value, get_args(wanted)[1])
        case kind if kind in (tuple, Sequence):
            return _list(name, value, get_args(wanted)[0])
        case kind if kind is bool:
            return _truth(name, value)
        case kind if kind is int:
            return _integer(name, value)
        case kind if kind is float:
            return _number(name, value)
        case kind if kind is str:
            return _text(name, value)
        case kind if issubclass(kind, StrEnum):
            return _choice(name, value, kind)
        case _:
            return record(name, value, wanted)


def opened(value: object, kind: type | tuple[type, ...]) -> object:
    """What a text says as JSON, where that is of a kind; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        said: object = json.loads(value)
    except ValueError:
        return value
    return said if isinstance(said, kind) else value


def matching_type(value: object, wanted: Any) -> Any:
    """Return the type of an annotation that a value is meant to be: a mapping is no text, anything else may be one."""
    if not isinstance(wanted, UnionType):
        return wanted
    types = [one for one in get_args(wanted) if one is not NoneType]
    is_mapping = isinstance(opened(value, Mapping), Mapping)
    return next((one for one in types if (get_origin(one) is Mapping) is is_mapping), types[0])


def refuse_wrong_keys(name: str, values: Mapping[Any, object], wanted: type) -> None:
    """Raise `InvalidRequestError` if a mapping has a key that the dataclass lacks, or lacks one that it needs."""
    known = [field.name for field in fields(wanted)]
    help_text = f"Known keys are {', '.join(known)}."
    for key in values:
        if key not in known:
            raise InvalidRequestError(f"{name} has the unknown key '{key}'.", remedy=help_text)
    for field in fields(wanted):
        if field.name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidRequestError(f"{name} has no '{field.name}'.", remedy=help_text)


def _mapping(name: str, value: object, wanted: Any) -> dict[str, Any]:
    if value is None:
        return {}
    value = opened(value, Mapping)
    if not isinstance(value, Mapping):
        raise InvalidRequestError(f"{name} is {value!r}, not a mapping.", remedy=_NATIVE_HELP)
    if wanted is object:  # the request says which kinds it takes; dates are not among them
        return {str(key): one.isoformat() if isinstance(one, date) else one for key, one in value.items()}
    return {str(key): fitted(f"{name}.{key}", one, wanted) for key, one in value.items()}


def _list(name: str, value: object, wanted: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    value = opened(value, list)
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        example = "['a', 'b']" if wanted is str else "[{...}, {...}]"
        raise InvalidRequestError(f"{name} is {value!r}, not a list.", remedy=f"Write {example}. {_NATIVE_HELP}")
    return tuple(fitted(f"{name}[{number}]", one, wanted) for number, one in enumerate(value))


def _truth(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _TRUTH:
        return _TRUTH[value.strip().lower()]
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
        remedy="Where it comes from another task, check that this task returned it.",
    )


def _number(name: str, value: object) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    raise InvalidRequestError(
        f"{name} is {value!r}, not a number.",
        remedy="Where it comes from another task, check that this task returned it.",
    )


def _text(name: str, value: object) -> str:
    """The text that the author wrote or meant: what native rendering has parsed is written out again."""
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


def _choice(name: str, value: object, wanted: type[E]) -> E:
    try:
        return wanted(str(value))
    except ValueError:
        raise InvalidRequestError(
            f"{name} is {value!r}.", remedy=f"Choose one of {', '.join(repr(str(one)) for one in wanted)}."
        ) from None
