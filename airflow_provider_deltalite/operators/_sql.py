"""Renders SQL parameters as text in every DAG, and reads template files for them.

Under `render_template_as_native_obj`, Jinja turns every text that looks like a Python literal into that literal. SQL
would change its meaning:

- `'closed'` would lose its quotes and name a column.
- `1e3` would become a decimal.
- An empty predicate would become None, which means every row.

So SQL texts are always rendered as text. A template for a complete structure is still rendered natively. The operator
rejects a parameter that the author gave and that is rendered as empty. It also rejects Python values that would have
another meaning as SQL. This module overrides two private methods of Airflow's templating. A contract test checks them.

A SQL parameter may also name a template file. Airflow reads a file for every template field that ends in
`template_ext`, but not for texts inside a mapping. This module reads files for SQL only, at any depth of a parameter.
An address that ends in `.sql` stays an address.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_deltalite.parse_time import CheckedWhenParsed, with_task_name
from airflow_provider_deltalite.quoting import QuotingTemplates, add_filters
from airflow_provider_deltalite.rendered import parsed_json
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class SqlTemplatedOperator(QuotingTemplates, SparkSubmitOperator, metaclass=CheckedWhenParsed):
    """An operator with SQL parameters: `sql_texts`, and `sql_structures`, which are mappings and lists of SQL texts.

    Its templates have the filters of `quoting`, which keep untrusted values from becoming SQL. Parameters in
    `plain_texts` are not SQL, but are rendered as text too.
    """

    template_ext: Sequence[str] = (".sql",)
    sql_texts: ClassVar[frozenset[str]] = frozenset()
    sql_structures: ClassVar[frozenset[str]] = frozenset()
    plain_texts: ClassVar[frozenset[str]] = frozenset()

    _has_read_files = False
    _emptied_parameters: tuple[str, ...] = ()  # parameters that the author gave, and that are None after rendering

    def reject_invalid_sql_values(self) -> None:
        """Raise `InvalidRequestError` for SQL that was rendered as empty, and for Python values in place of SQL."""
        for name in self._emptied_parameters:
            raise InvalidRequestError(
                f"{name} was given, but is empty after rendering.",
                remedy="If another task returns the value, check what that task returned. Otherwise leave the "
                "parameter out.",
            )
        for name in sorted(self.sql_texts | self.plain_texts):
            if isinstance(getattr(self, name), dict | list | date):
                _reject_python_value(name, getattr(self, name))
        for name in sorted(self.sql_structures):
            _reject_invalid_members(name, getattr(self, name))

    def names_file(self, parameter: str, text: str) -> bool:
        """Whether the text of a parameter, or of its member such as `set.status`, names a template file."""
        field = re.split(r"[.\[]", parameter, maxsplit=1)[0]
        is_sql = parameter in self.sql_texts or (field in self.sql_structures and field != parameter)
        return is_sql and text.endswith(tuple(self.template_ext)) and "\n" not in text

    def resolve_template_files(self) -> None:
        """Read the template files. Airflow calls this after it has parsed the DAG, but not for a mapped operator.

        Raises:
            InvalidRequestError: a file cannot be read.
        """
        try:
            self._read_files(self.get_template_env(), ())
        except InvalidRequestError as error:
            raise with_task_name(error, self) from error
        self.prepare_template()

    def render_template(
        self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """Render as Airflow does, but read no file, because all template files were read before.

        A text that ends in `template_ext` is a template like any other text.
        """
        if not isinstance(content, str) or not content.endswith(tuple(self.template_ext)):
            return super().render_template(content, context, jinja_env, seen_oids)
        if id(content) in (seen_oids or ()):
            return content
        return self._render((jinja_env or self.get_template_env()).from_string(content), context)

    def _read_files(self, jinja_env: Any, rendered_ids: Collection[int]) -> None:
        """Replace names of files by the content of the files, except in values whose ids are in `rendered_ids`."""
        for name in self.sql_texts | self.sql_structures:
            setattr(self, name, self._with_files(name, getattr(self, name), jinja_env, rendered_ids))
        self._has_read_files = True

    def _with_files(self, parameter: str, value: Any, jinja_env: Any, rendered_ids: Collection[int]) -> Any:
        """Return the value of a parameter, with each name of a file replaced by the file's content."""
        if id(value) in rendered_ids:
            return value
        if isinstance(value, str):
            return _file_text(parameter, value, jinja_env) if self.names_file(parameter, value) else value
        if type(value) is dict:
            return {
                key: self._with_files(f"{parameter}.{key}", member, jinja_env, rendered_ids)
                for key, member in value.items()
            }
        if type(value) in (list, tuple):
            return type(value)(
                self._with_files(f"{parameter}[{index}]", member, jinja_env, rendered_ids)
                for index, member in enumerate(value)
            )
        return value

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        render = super()._do_render_template_fields
        if parent is not self:
            render(parent, template_fields, context, jinja_env, seen_oids)
            return
        if not self._has_read_files:
            self._read_files(jinja_env, seen_oids)
        fields = list(template_fields)
        texts = self.sql_texts | self.plain_texts
        checked_fields = [name for name in fields if name in texts | self.sql_structures]
        fields_with_values = [name for name in checked_fields if getattr(self, name) is not None]
        text_fields = [name for name in checked_fields if name in texts or not isinstance(getattr(self, name), str)]
        render(self, [name for name in fields if name not in text_fields], context, jinja_env, seen_oids)
        render(self, text_fields, context, self._text_environment(jinja_env), seen_oids)
        self._emptied_parameters = tuple(name for name in fields_with_values if getattr(self, name) is None)

    def _text_environment(self, jinja_env: Any) -> Any:
        """Return the environment that renders the DAG's templates to text."""
        dag = self.get_dag()
        if dag is None or not _is_native(jinja_env):
            return jinja_env
        text_environment = dag.get_template_env(force_sandboxed=True)
        add_filters(text_environment)
        return text_environment

    def _render(self, template: Any, context: Context, dag: Any = None) -> Any:
        """Render natively or as text, as the template's environment says. Airflow follows the DAG's setting instead."""
        if _is_native(template.environment):
            return super()._render(template, context, dag=dag)
        return template.render(context)


def _file_text(parameter: str, file_name: str, jinja_env: Any) -> str:
    """Return the content of a template file.

    Raises:
        InvalidRequestError: the file is missing, or reading it failed.
    """
    loader = jinja_env.loader
    try:
        if loader is None:
            raise FileNotFoundError(file_name)
        text: str = loader.get_source(jinja_env, file_name)[0]
    except (OSError, UnicodeDecodeError) as error:  # Jinja's TemplateNotFound is an OSError
        folders = ", ".join(map(str, getattr(loader, "searchpath", ()))) or "no folder, because the task has no DAG"
        raise InvalidRequestError(
            f"Could not read the template file '{file_name}', which {parameter} names. Searched: {folders}.",
            remedy="Give a path without templates, relative to the folder of the DAG file or to `template_searchpath`. "
            "If the text is SQL, end it with a space.",
        ) from error
    return text


def _is_native(jinja_env: object) -> bool:
    from jinja2.nativetypes import NativeEnvironment

    return isinstance(jinja_env, NativeEnvironment)


def _reject_invalid_members(name: str, structure: object) -> None:
    match parsed_json(structure, (Mapping, list)):
        case Mapping() as members:
            for key, value in members.items():
                _reject_invalid_value(f"{name}.{key}", value)
        case list() | tuple() as members:
            for number, value in enumerate(members):
                _reject_invalid_value(f"{name}[{number}]", value)


def _reject_invalid_value(name: str, value: object) -> None:
    match value:
        case None:
            raise InvalidRequestError(f"{name} is None.", remedy="Leave it out, or write 'NULL' for SQL's NULL.")
        case date():
            _reject_python_value(name, value)
        case _:
            _reject_invalid_members(name, value)


def _reject_python_value(name: str, value: object) -> NoReturn:
    raise InvalidRequestError(
        f"{name} is a Python {type(value).__name__}, but must be a text with SQL.",
        remedy="Write a text that is SQL, such as \"DATE'2026-01-31'\".",
    )
