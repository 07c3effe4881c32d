"""`{parameters}`: what a class or function is, and a table of its parameters, from its docstrings and signatures.

The parameters of a class are those of its own constructor and of those of its bases that are this project's; what is
Airflow's is linked to, not repeated. Type and default come from the signature, so they cannot be wrong. A parameter
without a text, a text without a parameter, and a `(templated)` that the template fields deny are warnings, and so end
the build. `{provider-classes}` does this for every class in the modules that the provider names to Airflow under one
or several keys; a class in those modules that no page describes is a warning too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

from documenting import DocumentingDirective, code, named, params, prose
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from airflow_provider_deltalite.get_provider_info import get_provider_info

_log = logging.getLogger(__name__)
_OURS = ("airflow_provider_deltalite", "deltalite")
_NEVER_NAMED = {"self", "args", "kwargs", "spark"}
# The attribute of a parameter has another name where Airflow's own operators have one of that name.
_TEMPLATE_FIELD_OF = {"dry_run": "dry_run_only"}


class Parameters(DocumentingDirective):
    """The docstring of one class or function, and the table of its parameters."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"only-table": lambda _: True}

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        return self.described(self.arguments[0])

    def described(self, path: str) -> list[nodes.Node]:
        """What is shown for a dotted name."""
        described(self.env).add(path)
        documented = named(path)
        documented = getattr(documented, "function", documented)  # a `@task_group` holds what it decorates
        rows = list(self._rows(path, documented))
        shown: list[nodes.Node] = [] if "only-table" in self.options else self.text(prose(documented))
        if rows:
            templated = inspect.isclass(documented) and hasattr(documented, "template_fields")
            head = ["parameter", "type, default", *(["templated"] if templated else []), "what it is"]
            widths = [20, 22, *([8] if templated else []), 50]
            cells = [[*row[:2], *([row[2]] if templated else []), row[3]] for row in rows]
            shown.append(self.table(head, cells, widths=widths, kind="parameters"))
        return shown

    def _rows(self, path: str, documented: Any) -> Iterator[tuple[str, str, str, str]]:
        texts = _texts(documented)
        signed = _signed(documented)
        inherited = _signed(documented, ours=False) if inspect.isclass(documented) else {}
        fields = set(getattr(documented, "template_fields", ()))
        for name in signed:
            if name not in texts:
                self._warn("%s does not say what its parameter '%s' is", path, name)
        for name, (text, templated) in texts.items():
            if name in _NEVER_NAMED:
                continue
            if name not in signed and name not in inherited:
                self._warn("%s has a text for '%s', which is no parameter", path, name)
                continue
            if templated != (_TEMPLATE_FIELD_OF.get(name, name) in fields):
                self._warn("%s: '%s' is templated in its text, or in template_fields, and not in both", path, name)
            parameter = signed.get(name) or inherited[name]
            yield code(name), _type_and_default(parameter), "yes" if templated else "no", text

    def _warn(self, message: str, *values: object) -> None:
        _log.warning(message, *values, location=self.get_location())


class ProviderClasses(Parameters):
    """Every public class of the modules that the provider names to Airflow under one or several keys."""

    def run(self) -> list[nodes.Node]:
        """A definition for each class: its address, what it is, its parameters."""
        shown: list[nodes.Node] = []
        for path in provider_classes(*self.arguments[0].split(",")):
            term = nodes.term("", "", nodes.literal("", path))
            definition = nodes.definition("", *self.described(path))
            name = path.rpartition(".")[2]
            item = nodes.definition_list_item("", term, definition, ids=[nodes.make_id(f"class-{name}")])
            shown.append(nodes.definition_list("", item))
        return shown


def described(env: BuildEnvironment) -> set[str]:
    """The dotted names that pages have described so far."""
    if not hasattr(env, "deltalite_described_classes"):
        env.deltalite_described_classes = set()
    found: set[str] = env.deltalite_described_classes
    return found


def _check(_app: Sphinx, env: BuildEnvironment) -> None:
    for path in provider_classes("operators", "sensors", "hooks", "triggers"):
        if path not in described(env):
            _log.warning("no page describes %s", path)


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

    Airflow gives each operator that has none of its own a wrapper of the one that it inherits.
    """
    bases = (base for base in cls.__mro__ if "__init__" in vars(base) and base is not object)
    return (base for base in bases if not ours or inspect.unwrap(vars(base)["__init__"]).__module__.startswith(_OURS))


def _texts(documented: Any) -> dict[str, tuple[str, bool]]:
    """What docstrings say of parameters; a class's own text goes before that of its bases."""
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
        found = inspect.signature(inspect.unwrap(function)).parameters
        signed |= {name: one for name, one in found.items() if name not in signed and name not in _NEVER_NAMED}
    return signed


def _type_and_default(parameter: inspect.Parameter) -> str:
    kind = str(parameter.annotation).replace("Mapping[", "dict[").replace("Sequence[", "list[")
    if parameter.default is inspect.Parameter.empty:
        return f"{code(kind)}, required"
    return f"{code(kind)}, {code(repr(parameter.default))}"


def setup(app: Sphinx) -> dict[str, object]:
    """What Sphinx calls."""
    app.add_directive("parameters", Parameters)
    app.add_directive("provider-classes", ProviderClasses)
    app.connect("env-check-consistency", _check)
    return {"parallel_read_safe": False}
