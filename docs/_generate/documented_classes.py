"""Classes and functions: their text, a table of their parameters, and the reference of the Python API.

The parameters of a class are those of its constructor and of the constructors of its bases in this project; those of
Airflow are not repeated. Type and default come from the signature. A parameter without a text, a text without a
parameter, and a `(templated)` that the template fields deny are errors.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from documenting import UndocumentedError, code, google_docstring, named, params, prose, table

from airflow_provider_deltalite.get_provider_info import get_provider_info

_OURS = ("airflow_provider_deltalite", "deltalite")
_NEVER_NAMED = {"self", "args", "kwargs", "spark"}
# The attribute of a parameter has another name where Airflow's own operators have one of that name.
_TEMPLATE_FIELD_OF = {"dry_run": "dry_run_only"}


def parameters(path: str) -> str:
    """The docstring of a class or function, and the table of its parameters."""
    documented = named(path)
    documented = getattr(documented, "function", documented)  # a `@task_group` holds what it decorates
    rows = list(_rows(path, documented))
    if not rows:
        return prose(documented)
    if inspect.isclass(documented) and hasattr(documented, "template_fields"):
        return f"{prose(documented)}\n\n{table(['parameter', 'type, default', 'templated', 'what it is'], rows)}"
    shown = [(name, kind, text) for name, kind, _, text in rows]
    return f"{prose(documented)}\n\n{table(['parameter', 'type, default', 'what it is'], shown)}"


def classes(*kinds: str) -> str:
    """Every public class of the modules that the provider names to Airflow under some keys."""
    paths = provider_classes(*kinds)
    return "\n\n".join(f"### {path.rpartition('.')[2]}\n\n{code(path)}\n\n{parameters(path)}" for path in paths)


def api(path: str) -> str:
    """A class of the Python API with its public members, or a function."""
    documented = named(path)
    name = path.rpartition(".")[2]
    shown = [_signed_text(name, documented)]
    for member, value in vars(documented).items() if inspect.isclass(documented) else ():
        if member.startswith("_"):
            continue
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(function, property):
            kind = inspect.signature(function.fget).return_annotation
            shown.append(f"### {member}\n\n{code(f'{member}: {kind}')}\n\n{google_docstring(function)}")
        elif inspect.isfunction(function):
            shown.append(f"### {member}\n\n{_signed_text(member, function)}")
    return "\n\n".join(shown)


def _signed_text(name: str, documented: Any) -> str:
    signature = str(inspect.signature(documented)).replace("'", "")
    return f"```python\n{name}{signature}\n```\n\n{google_docstring(documented)}"


def _rows(path: str, documented: Any) -> Iterator[tuple[str, str, str, str]]:
    texts = _texts(documented)
    signed = _signed(documented)
    inherited = _signed(documented, ours=False) if inspect.isclass(documented) else {}
    fields = set(getattr(documented, "template_fields", ()))
    for name in signed:
        if name not in texts:
            raise UndocumentedError(f"{path} does not say what its parameter '{name}' is.")
    for name, (text, templated) in texts.items():
        if name in _NEVER_NAMED:
            continue
        if name not in signed and name not in inherited:
            raise UndocumentedError(f"{path} has a text for '{name}', which is no parameter.")
        if templated != (_TEMPLATE_FIELD_OF.get(name, name) in fields):
            raise UndocumentedError(f"{path}: '{name}' is templated in its text or in template_fields, not in both.")
        parameter = signed.get(name) or inherited[name]
        yield code(name), _type_and_default(parameter), "yes" if templated else "no", text


def provider_classes(*kinds: str) -> list[str]:
    """The dotted names of the public classes that stand in the modules of these keys of the provider info."""
    modules = [
        module for kind in kinds for entry in get_provider_info().get(kind, ()) for module in entry["python-modules"]
    ]
    return [f"{module}.{name}" for module in modules for name in _public_classes(importlib.import_module(module))]


def _public_classes(module: Any) -> list[str]:
    listed = getattr(module, "__all__", None)
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and (name in listed if listed is not None else value.__module__ == module.__name__)
        and not name.startswith("_")
        and "__dataclass_fields__" not in vars(value)
    ]


def _constructed(cls: type, *, ours: bool = True) -> Iterator[type]:
    """The class and its bases that have a constructor: those whose constructor is this project's, or all.

    Airflow gives each operator without a constructor a wrapper of the inherited one.
    """
    bases = (base for base in cls.__mro__ if "__init__" in vars(base) and base is not object)
    return (base for base in bases if not ours or inspect.unwrap(vars(base)["__init__"]).__module__.startswith(_OURS))


def _texts(documented: Any) -> dict[str, tuple[str, bool]]:
    """Return the texts of parameters from docstrings. The text of a class takes precedence over that of its bases."""
    if not inspect.isclass(documented):
        return params(documented)
    texts = params(documented)
    kwargs = texts.pop("kwargs", None)
    signed = _signed(documented)
    for base in _constructed(documented):
        texts |= {name: text for name, text in params(base).items() if name not in texts and name in signed}
    return texts if kwargs is None else texts | {"kwargs": kwargs}


def _signed(documented: Any, *, ours: bool = True) -> dict[str, inspect.Parameter]:
    """The parameters by name, those of bases included: of bases that are this project's, or of all."""
    is_class = inspect.isclass(documented)
    functions = [base.__init__ for base in _constructed(documented, ours=ours)] if is_class else [documented]
    signed: dict[str, inspect.Parameter] = {}
    for function in functions:
        parameters = inspect.signature(inspect.unwrap(function)).parameters
        signed |= {name: one for name, one in parameters.items() if name not in signed and name not in _NEVER_NAMED}
    return signed


def _type_and_default(parameter: inspect.Parameter) -> str:
    kind = str(parameter.annotation).replace("Mapping[", "dict[").replace("Sequence[", "list[")
    if parameter.default is inspect.Parameter.empty:
        return f"{code(kind)}, required"
    return f"{code(kind)}, {code(repr(parameter.default))}"
