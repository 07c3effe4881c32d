"""The errors of `deltalite.errors`: the table of all, and for each what its class says.

The meaning of an error, its retry and its exit code come from the class; what to do is written on the
page, below the generated part.
"""

from __future__ import annotations

from collections.abc import Iterator

from documenting import UndocumentedError, code, table

from deltalite.errors import DeltaLiteError


def error_facts(name: str) -> str:
    """The description of an error class."""
    cls = error_classes().get(name)
    if cls is None:
        raise UndocumentedError(f"There is no error class '{name}'.")
    kind = "" if cls is DeltaLiteError else f", a kind of {code(cls.__base__.__name__)}"
    return f"{(cls.__doc__ or '').strip()}\n\n*Exit code {cls.exit_code}, {_again(cls)}{kind}.*"


def error_tree() -> str:
    """All errors, by their codes."""
    classes = sorted(error_classes().values(), key=lambda cls: cls.exit_code)
    rows = [
        [
            str(cls.exit_code),
            f"[{code(cls.__name__)}](#{cls.__name__.lower()})",
            "yes" if cls.retryable else "no",
            cls.__doc__ or "",
        ]
        for cls in classes
    ]
    return table(["code", "error", "retried", "what it means"], rows)


def error_classes() -> dict[str, type[DeltaLiteError]]:
    """Name -> class, of the whole tree."""
    return {cls.__name__: cls for cls in _tree(DeltaLiteError)}


def _tree(root: type[DeltaLiteError]) -> Iterator[type[DeltaLiteError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == DeltaLiteError.__module__:
            yield from _tree(child)


def _again(cls: type[DeltaLiteError]) -> str:
    return "left to the task's retries" if cls.retryable else "not retried: the task fails at once"
