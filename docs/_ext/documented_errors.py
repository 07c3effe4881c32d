"""`{error-facts}` and `{error-tree}`: the errors of `deltalite.errors`, each with what its class says of it.

What an error means, whether another try can help and the exit code come from the class; what to do is written on the
page, below the directive. An error that no page describes is a warning, and so ends the build. Where a docstring names
an error, it links there.
"""

from __future__ import annotations

from collections.abc import Iterator

from documenting import DocumentingDirective, code
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from deltalite.errors import DeltaLiteError

_log = logging.getLogger(__name__)
_PAGE = "troubleshooting"


class ErrorFacts(DocumentingDirective):
    """What one error class says of itself."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One paragraph, and the facts."""
        name = self.arguments[0]
        cls = error_classes().get(name)
        if cls is None:
            _log.warning("there is no error class '%s'", name, location=self.get_location())
            return []
        described(self.env).add(name)
        kind = "" if cls is DeltaLiteError else f", a kind of {code(cls.__base__.__name__)}"
        facts = f"Exit code {cls.exit_code}, {_again(cls)}{kind}."
        return self.text(f"{(cls.__doc__ or '').strip()}\n\n*{facts}*")


class ErrorTree(DocumentingDirective):
    """All errors, by their codes."""

    def run(self) -> list[nodes.Node]:
        """The table."""
        classes = sorted(error_classes().values(), key=lambda cls: cls.exit_code)
        rows = [
            [
                str(cls.exit_code),
                f"[{code(cls.__name__)}](#{cls.__name__.lower()})",
                "yes" if cls.retryable else "no",
                " ".join((cls.__doc__ or "").split()),
            ]
            for cls in classes
        ]
        return [self.table(["code", "error", "retried", "what it means"], rows, widths=[6, 32, 8, 54], kind="errors")]


def error_classes() -> dict[str, type[DeltaLiteError]]:
    """Name -> class, of the whole tree."""
    return {cls.__name__: cls for cls in _tree(DeltaLiteError)}


def described(env: BuildEnvironment) -> set[str]:
    """The errors that pages have described so far."""
    if not hasattr(env, "deltalite_described_errors"):
        env.deltalite_described_errors = set()
    found: set[str] = env.deltalite_described_errors
    return found


def _tree(root: type[DeltaLiteError]) -> Iterator[type[DeltaLiteError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == DeltaLiteError.__module__:
            yield from _tree(child)


def _again(cls: type[DeltaLiteError]) -> str:
    return "left to the task's retries" if cls.retryable else "not retried: the task fails at once"


def _check(_app: Sphinx, env: BuildEnvironment) -> None:
    for name in sorted(error_classes().keys() - described(env)):
        _log.warning("no page says what to do about %s", name)


def _linked(app: Sphinx, _env: BuildEnvironment, node: nodes.Element, content: nodes.Node) -> nodes.Node | None:
    """The link from a docstring's `Raises` to what the page says of the error."""
    name = str(node.get("reftarget", "")).rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in error_classes():
        return None
    return make_refnode(app.builder, node["refdoc"], _PAGE, name.lower(), content, name)


def setup(app: Sphinx) -> dict[str, object]:
    """What Sphinx calls."""
    app.add_directive("error-facts", ErrorFacts)
    app.add_directive("error-tree", ErrorTree)
    app.connect("missing-reference", _linked)
    app.connect("env-check-consistency", _check)
    return {"parallel_read_safe": False}
