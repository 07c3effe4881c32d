"""SQL in parameters stays the text that its author wrote, however templates are rendered.

Under `render_template_as_native_obj` Jinja reads every text as a literal of Python where it can: `'closed'` would lose
its quotes and name a column, `1e3` would become a decimal, an empty predicate would be None, which means every row. So
the texts of SQL are rendered as text in every DAG; a whole structure may still be made by one template. What was given
and came out empty is refused, and so is a value of Python's that would mean something else as SQL. Two private methods
of Airflow's templating are overridden, and a contract test watches over them.

SQL may also be the name of a template file. Airflow reads a file for each text of each template field that ends in
`template_ext`, but not for one inside of a mapping. Here files are read for SQL alone, wherever it stands in a
parameter, and an address that ends in `.sql` stays an address.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_deltalite.parse_time import CheckedWhenParsed, of_task
from airflow_provider_deltalite.quoting import QuotingTemplates, add_filters
from airflow_provider_deltalite.rendered import opened
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class SqlTemplatedOperator(QuotingTemplates, SparkSubmitOperator, metaclass=CheckedWhenParsed):
    """An operator some of whose parameters are SQL: texts, or mappings and lists that hold such texts.

    Templates have the filters of `quoting`, by which a value of somebody else's stays a value. Parameters in
    `plain_texts` are not SQL, but are rendered as text too.
    """

    template_ext: Sequence[str] = (".sql",)
    sql_texts: ClassVar[frozenset[str]] = frozenset()
    sql_structures: ClassVar[frozenset[str]] = frozenset()
    plain_texts: ClassVar[frozenset[str]] = frozenset()

    _has_read_files = False
    _emptied: tuple[str, ...] = ()  # what was given, and is None since it was rendered

    def refuse_what_is_no_sql(self) -> None:
        """Raise `InvalidRequestError` for SQL that a template or another task has emptied, and for Python's dates."""
        for name in self._emptied:
            raise InvalidRequestError(
                f"{name} was given, and came out empty.",
                remedy="Where it comes from another task, check that this task returned it; else leave it out.",
            )
        for name in sorted(self.sql_texts | self.plain_texts):
            if isinstance(getattr(self, name), dict | list | date):
                _refuse_python(name, getattr(self, name))
        for name in sorted(self.sql_structures):
            _refuse_values(name, getattr(self, name))

    def names_file(self, parameter: str, text: str) -> bool:
        """Whether the text of a parameter, or of a member such as `set.status`, names a template file."""
        field = re.split(r"[.\[]", parameter, maxsplit=1)[0]
        is_sql = parameter in self.sql_texts or (field in self.sql_structures and field != parameter)
        return is_sql and text.endswith(tuple(self.template_ext)) and "\n" not in text

    def resolve_template_files(self) -> None:
        """Read the template files. Airflow calls this when it has parsed the DAG, but not for a mapped operator.

        Raises:
            InvalidRequestError: a file cannot be read.
        """
        try:
            self._read_files(self.get_template_env(), ())
        except InvalidRequestError as error:
            raise of_task(self, error) from error
        self.prepare_template()

    def render_template(
        self, content: Any, context: Context, jinja_env: Any = None, seen_oids: set[int] | None = None
    ) -> Any:
        """Airflow's own, but a text that ends like the name of a file is a text: all files were read before."""
        if not isinstance(content, str) or not content.endswith(tuple(self.template_ext)):
            return super().render_template(content, context, jinja_env, seen_oids)
        if id(content) in (seen_oids or ()):
            return content
        return self._render((jinja_env or self.get_template_env()).from_string(content), context)

    def _read_files(self, jinja_env: Any, rendered: Collection[int]) -> None:
        """Replace names of files by what the files hold, except in values whose ids are in `rendered`."""
        for name in self.sql_texts | self.sql_structures:
            setattr(self, name, self._with_files(name, getattr(self, name), jinja_env, rendered))
        self._has_read_files = True

    def _with_files(self, parameter: str, value: Any, jinja_env: Any, rendered: Collection[int]) -> Any:
        if id(value) in rendered:
            return value
        if isinstance(value, str):
            return _file_text(parameter, value, jinja_env) if self.names_file(parameter, value) else value
        if type(value) is dict:
            return {key: self._with_files(f"{parameter}.{key}", one, jinja_env, rendered) for key, one in value.items()}
        if type(value) in (list, tuple):
            members = enumerate(value)
            return type(value)(self._with_files(f"{parameter}[{at}]", one, jinja_env, rendered) for at, one in members)
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
        sql = [name for name in fields if name in texts | self.sql_structures]
        given = [name for name in sql if getattr(self, name) is not None]
        as_text = [name for name in sql if name in texts or not isinstance(getattr(self, name), str)]
        render(self, [name for name in fields if name not in as_text], context, jinja_env, seen_oids)
        render(self, as_text, context, self._text_environment(jinja_env), seen_oids)
        self._emptied = tuple(name for name in given if getattr(self, name) is None)

    def _text_environment(self, jinja_env: Any) -> Any:
        """The environment that renders the DAG's templates to text."""
        dag = self.get_dag()
        if dag is None or not _is_native(jinja_env):
            return jinja_env
        as_text = dag.get_template_env(force_sandboxed=True)
        add_filters(as_text)
        return as_text

    def _render(self, template: Any, context: Context, dag: Any = None) -> Any:
        """What a template gives; Airflow goes by the DAG here, and not by the template's environment."""
        if _is_native(template.environment):
            return super()._render(template, context, dag=dag)
        return template.render(context)


def _file_text(parameter: str, name: str, jinja_env: Any) -> str:
    """What a template file holds.

    Raises:
        InvalidRequestError: the file is missing or cannot be read.
    """
    loader = jinja_env.loader
    try:
        if loader is None:
            raise FileNotFoundError(name)
        text: str = loader.get_source(jinja_env, name)[0]
    except (OSError, UnicodeDecodeError) as error:  # Jinja's TemplateNotFound is an OSError
        folders = ", ".join(map(str, getattr(loader, "searchpath", ()))) or "no folder, as the task has no DAG"
        raise InvalidRequestError(
            f"{parameter} names the template file '{name}', which cannot be read. Searched: {folders}.",
            remedy="Give a path that is relative to the folder of the DAG file or to `template_searchpath`, without "
            "templates in it. If the text is SQL, end it with a space.",
        ) from error
    return text


def _is_native(jinja_env: object) -> bool:
    from jinja2.nativetypes import NativeEnvironment

    return isinstance(jinja_env, NativeEnvironment)


def _refuse_values(name: str, given: object) -> None:
    match opened(given, (Mapping, list)):
        case Mapping() as members:
            for key, value in members.items():
                _refuse_value(f"{name}.{key}", value)
        case list() | tuple() as members:
            for number, value in enumerate(members):
                _refuse_value(f"{name}[{number}]", value)


def _refuse_value(name: str, value: object) -> None:
    match value:
        case None:
            raise InvalidRequestError(
                f"{name} is None.", remedy="Leave it out, or write 'NULL' where that is the value."
            )
        case date():
            _refuse_python(name, value)
        case _:
            _refuse_values(name, value)


def _refuse_python(name: str, value: object) -> NoReturn:
    raise InvalidRequestError(
        f"{name} is a {type(value).__name__} of Python's, where SQL is wanted.",
        remedy="Write a text that is SQL, such as \"DATE'2026-01-31'\".",
    )
