"""`{settings}`: the options of `airflow.cfg` that the provider has; `{result-fields}`: the keys of a result."""

from __future__ import annotations

from dataclasses import fields

from documenting import DocumentingDirective, code
from docutils import nodes
from sphinx.application import Sphinx

from airflow_provider_deltalite.get_provider_info import get_provider_info
from deltalite.results import OperationResult


class Settings(DocumentingDirective):
    """A table of all options."""

    def run(self) -> list[nodes.Node]:
        """The table."""
        rows = [
            [
                code(f"[{section}] {name}"),
                code(f"AIRFLOW__{section.upper()}__{name.upper()}"),
                "none" if option["default"] is None else code(str(option["default"])),
                option["description"],
            ]
            for section, described in get_provider_info()["config"].items()
            for name, option in described["options"].items()
        ]
        head = ["option", "environment", "default", "what it is"]
        return [self.table(head, rows, widths=[18, 26, 10, 46], kind="parameters")]


class ResultFields(DocumentingDirective):
    """The keys of what a task returns, with their types."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """A list of the keys that the content describes, one `key: text` a line, held against the class."""
        texts = dict(line.split(": ", 1) for line in self.content if line.strip())
        known = {field.name: str(field.type) for field in fields(OperationResult)}
        if set(texts) != set(known):
            raise self.error(f"the fields of a result are {sorted(known)}, and described are {sorted(texts)}")
        rows = [[code(name), code(kind.replace("Mapping[", "dict[")), texts[name]] for name, kind in known.items()]
        return [self.table(["key", "type", "what it says"], rows, widths=[18, 20, 62], kind="parameters")]


def setup(app: Sphinx) -> dict[str, object]:
    """What Sphinx calls."""
    app.add_directive("settings", Settings)
    app.add_directive("result-fields", ResultFields)
    return {"parallel_read_safe": True}
