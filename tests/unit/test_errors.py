"""The tree of errors: each class has an exit code, and each error can be sent between processes."""

from __future__ import annotations

import pickle

import pytest

from deltalite import errors
from deltalite.errors import DeltaLiteError, error_class_for

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, DeltaLiteError)]


def test_exit_codes_are_unique_and_differ_from_those_of_shells_python_and_the_jvm():
    codes = [cls.exit_code for cls in CLASSES]
    assert len(codes) == len(set(codes)) == len(CLASSES)
    assert all(2 < code < 126 for code in codes)
    assert all("exit_code" in vars(cls) for cls in CLASSES)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_code_finds_its_class_and_an_instance_survives_pickling(cls):
    assert error_class_for(cls.exit_code) is cls
    error = cls("The disk is 50% full.", remedy="Make room.")
    unpickled_error = pickle.loads(pickle.dumps(error))
    assert type(unpickled_error) is cls
    assert (unpickled_error.problem, unpickled_error.remedy, str(unpickled_error)) == (
        "The disk is 50% full.",
        "Make room.",
        "The disk is 50% full. Make room.",
    )


def test_a_message_with_any_quoted_text_can_be_encoded():
    error = DeltaLiteError("The log names '\ud800\0ü'.", remedy="Write \udfff anew.")
    assert str(error) == "The log names '\\ud800\\x00ü'. Write \\udfff anew."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("code", [0, 1, 2, 11, 126, 134, 137, 143, -9])
def test_an_exit_code_of_another_program_has_no_error_class(code):
    assert error_class_for(code) is None


def test_only_errors_that_another_attempt_can_solve_are_retryable():
    retryable = {cls.__name__ for cls in CLASSES if cls.retryable}
    conflicts = {cls.__name__ for cls in CLASSES if issubclass(cls, errors.ConcurrentModificationException)}
    assert retryable == {
        "MaintenanceIncompleteError", "SourceChangedError", "SourceNotFoundError", "StorageError",
    } | conflicts  # fmt: skip


def test_the_docstring_shows_the_tree_of_the_classes():
    parents_in_docstring = {}
    stack = []
    for line in errors.__doc__.splitlines():
        name = line.lstrip(" │├└─").split(" ")[0]
        if name in vars(errors) and line.startswith("    "):
            depth = (len(line) - len(line.lstrip(" │├└─"))) // 4
            stack[depth - 1 :] = [name]
            parents_in_docstring[name] = stack[-2] if len(stack) > 1 else None
    assert parents_in_docstring == {
        cls.__name__: None if cls is DeltaLiteError else cls.__base__.__name__ for cls in CLASSES
    }
