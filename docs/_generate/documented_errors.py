"""Documentation of the errors of `deltalite.errors`: the table of all classes, and a description of each.

The meaning, the exit code and the retries come from the class. The advice is written by hand on the page, below the
generated part.
"""

from __future__ import annotations

from collections.abc import Iterator

from documenting import UndocumentedError, code, table

from deltalite.errors import DeltaLiteError


def error_facts(name: str) -> str:
    """Return the description of an error class. Raises `UndocumentedError` if there is no such class."""
    cls = error_classes().get(name)
    if cls is None:
        raise UndocumentedError(f"There is no error class '{name}'.")
    base_class_text = "" if cls is DeltaLiteError else f", a kind of {code(cls.__base__.__name__)}"
    return f"{(cls.__doc__ or '').strip()}\n\n*Exit code {cls.exit_code}, {_retry_text(cls)}{base_class_text}.*"


def error_tree() -> str:
    """Return the table of all error classes, in the order of their exit codes."""
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
    """Return `DeltaLiteError` and its subclasses by name."""
    return {cls.__name__: cls for cls in _with_subclasses(DeltaLiteError)}


def _with_subclasses(cls: type[DeltaLiteError]) -> Iterator[type[DeltaLiteError]]:
    """Yield a class and its direct and indirect subclasses in `deltalite.errors`."""
    yield cls
    for subclass in cls.__subclasses__():
        if subclass.__module__ == DeltaLiteError.__module__:
            yield from _with_subclasses(subclass)


def _retry_text(cls: type[DeltaLiteError]) -> str:
    return "left to the task's retries" if cls.retryable else "not retried: the task fails at once"
