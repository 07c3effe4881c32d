"""Documentation of classes and functions: their docstrings, tables of their parameters, and the Python API.

The parameters of a class are those of its constructor, and of the constructors of its bases in this project. A table
has a parameter of Airflow's own classes only if a docstring of this project describes it. Types and defaults come from
the signature. These cases raise `UndocumentedError`:

- A parameter has no text.
- A text names no parameter.
- A parameter is templated by its text `(templated)` or by the template fields, but not by both.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from documenting import UndocumentedError, code, google_docstring_as_markdown, import_object, param_texts, prose, table

from airflow_provider_deltalite.get_provider_info import get_provider_info

_PROJECT_PACKAGES = ("airflow_provider_deltalite", "deltalite")
_OMITTED_PARAMETERS = {"self", "args", "kwargs", "spark"}
# The attribute of a parameter has another name if Airflow's operators already have an attribute with its name.
_TEMPLATE_FIELD_OF = {"dry_run": "dry_run_only"}


def parameters(dotted_name: str) -> str:
    """Return the docstring of a class or function, and the table of its parameters."""
    documented = import_object(dotted_name)
    documented = getattr(documented, "function", documented)  # a `@task_group` holds the decorated function
    rows = list(_parameter_rows(dotted_name, documented))
    if not rows:
        return prose(documented)
    if inspect.isclass(documented) and hasattr(documented, "template_fields"):
        return f"{prose(documented)}\n\n{table(['parameter', 'type, default', 'templated', 'what it is'], rows)}"
    rows_without_templated = [(name, type_and_default, text) for name, type_and_default, _, text in rows]
    return f"{prose(documented)}\n\n{table(['parameter', 'type, default', 'what it is'], rows_without_templated)}"


def classes(*kinds: str) -> str:
    """Return a section for each public class of these kinds, such as `operators`."""
    dotted_names = provider_classes(*kinds)
    return "\n\n".join(f"### {name.rpartition('.')[2]}\n\n{code(name)}\n\n{parameters(name)}" for name in dotted_names)


def api(dotted_name: str) -> str:
    """Return the reference of a function, or of a class with its public members."""
    documented = import_object(dotted_name)
    sections = [_signature_and_docstring(dotted_name.rpartition(".")[2], documented)]
    for member, value in vars(documented).items() if inspect.isclass(documented) else ():
        if member.startswith("_"):
            continue
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(function, property | cached_property):
            getter = function.fget if isinstance(function, property) else function.func
            annotation = inspect.signature(getter).return_annotation
            sections.append(
                f"### {member}\n\n{code(f'{member}: {annotation}')}\n\n{google_docstring_as_markdown(function)}"
            )
        elif inspect.isfunction(function):
            sections.append(f"### {member}\n\n{_signature_and_docstring(member, function)}")
    return "\n\n".join(sections)


def provider_classes(*kinds: str) -> list[str]:
    """Return the dotted names of the public classes in the provider's modules of these kinds.

    A kind is a key of the provider info, such as `operators`.
    """
    modules = [
        module for kind in kinds for group in get_provider_info().get(kind, ()) for module in group["python-modules"]
    ]
    return [f"{module}.{name}" for module in modules for name in _public_classes(importlib.import_module(module))]


def _public_classes(module: Any) -> list[str]:
    """Return the names of the public classes of a module, without dataclasses.

    These are the classes in `__all__`. A module without `__all__` has the classes that it defines.
    """
    public_names = getattr(module, "__all__", None)
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and (name in public_names if public_names is not None else value.__module__ == module.__name__)
        and not name.startswith("_")
        and "__dataclass_fields__" not in vars(value)
    ]


def _signature_and_docstring(name: str, documented: Any) -> str:
    signature = str(inspect.signature(documented)).replace("'", "")
    return f"```python\n{name}{signature}\n```\n\n{google_docstring_as_markdown(documented)}"


def _parameter_rows(dotted_name: str, documented: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield the name, the type and default, "yes" or "no" for templated, and the text of each parameter."""
    texts = _parameter_texts(documented)
    project_parameters = _signature_parameters(documented)
    all_parameters = project_parameters
    if inspect.isclass(documented):
        all_parameters = _signature_parameters(documented, project_only=False) | project_parameters
    template_fields = set(getattr(documented, "template_fields", ()))
    for name in project_parameters:
        if name not in texts:
            raise UndocumentedError(f"The docstring of {dotted_name} does not describe the parameter '{name}'.")
    for name, (text, is_templated) in texts.items():
        if name in _OMITTED_PARAMETERS:
            continue
        if name not in all_parameters:
            raise UndocumentedError(f"The docstring of {dotted_name} describes '{name}', which is not a parameter.")
        if is_templated != (_TEMPLATE_FIELD_OF.get(name, name) in template_fields):
            raise UndocumentedError(
                f"{dotted_name}: '{name}' is templated in its docstring or in template_fields, but not in both."
            )
        yield code(name), _type_and_default(all_parameters[name]), "yes" if is_templated else "no", text


def _parameter_texts(documented: Any) -> dict[str, tuple[str, bool]]:
    """Return the text of each parameter, and whether it is templated.

    The docstring of a class takes precedence over those of its bases.
    """
    texts = param_texts(documented)
    if inspect.isclass(documented):
        project_parameters = _signature_parameters(documented)
        for base in _classes_with_constructor(documented):
            for name, text in param_texts(base).items():
                if name in project_parameters:
                    texts.setdefault(name, text)
    return texts


def _signature_parameters(documented: Any, *, project_only: bool = True) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, or of the constructors of a class and its bases, by name.

    With `project_only`, constructors outside of this project do not count.
    """
    if inspect.isclass(documented):
        functions = [cls.__init__ for cls in _classes_with_constructor(documented, project_only=project_only)]
    else:
        functions = [documented]
    omitted_parameters = _OMITTED_PARAMETERS | getattr(documented, "omitted_parameters", frozenset())
    by_name: dict[str, inspect.Parameter] = {}
    for function in functions:
        for name, parameter in inspect.signature(inspect.unwrap(function)).parameters.items():
            if name not in omitted_parameters:
                by_name.setdefault(name, parameter)
    return by_name


def _classes_with_constructor(cls: type, *, project_only: bool = True) -> Iterator[type]:
    """Return the class and its bases that define a constructor.

    With `project_only`, constructors outside of this project do not count.

    Airflow wraps the inherited constructor of each operator that defines none, so the check unwraps it.
    """
    bases = (base for base in cls.__mro__ if "__init__" in vars(base) and base is not object)
    return (
        base
        for base in bases
        if not project_only or inspect.unwrap(vars(base)["__init__"]).__module__.startswith(_PROJECT_PACKAGES)
    )


def _type_and_default(parameter: inspect.Parameter) -> str:
    type_text = str(parameter.annotation).replace("Mapping[", "dict[").replace("Sequence[", "list[")
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return f"{code(type_text)}, keyword arguments"
    if parameter.default is inspect.Parameter.empty:
        return f"{code(type_text)}, required"
    return f"{code(type_text)}, {code(repr(parameter.default))}"
