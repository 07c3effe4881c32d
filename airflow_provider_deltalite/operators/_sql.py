"""SQL in parameters stays the text that its author wrote, however templates are rendered.

Under `render_template_as_native_obj` Jinja reads every text as a literal of Python where it can: `'closed'` would lose
its quotes and name a column, `1e3` would become a decimal, an empty predicate would be None, which means every row. So
the texts of SQL are rendered as text in every DAG; a whole structure may still be made by one template. What was given
and came out empty is refused, and so is a value of Python's that would mean something else as SQL. Two private methods
of Airflow's templating are overridden, and a contract test watches over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_deltalite.quoting import QuotingTemplates, add_filters
from airflow_provider_deltalite.rendered import opened
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


class SqlTemplatedOperator(QuotingTemplates, SparkSubmitOperator):
    """An operator some of whose parameters are SQL: texts, or mappings and lists that hold such texts.

    Templates have the filters of `quoting`, by which a value of somebody else's stays a value.
    """

    sql_texts: ClassVar[frozenset[str]] = frozenset()
    sql_structures: ClassVar[frozenset[str]] = frozenset()

    _emptied: tuple[str, ...] = ()  # what was given, and is None since it was rendered

    def refuse_what_is_no_sql(self) -> None:
        """Raise `InvalidRequestError` for SQL that a template or another task has emptied, and for Python's dates."""
        for name in self._emptied:
            raise InvalidRequestError(
                f"{name} was given, and came out empty.",
                remedy="Where it comes from another task, check that this task returned it; else leave it out.",
            )
        for name in sorted(self.sql_texts):
            if isinstance(getattr(self, name), dict | list | date):
                _refuse_python(name, getattr(self, name))
        for name in sorted(self.sql_structures):
            _refuse_values(name, getattr(self, name))

    def _do_render_template_fields(
        self, parent: Any, template_fields: Iterable[str], context: Context, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        render = super()._do_render_template_fields
        if parent is not self:
            render(parent, template_fields, context, jinja_env, seen_oids)
            return
        fields = list(template_fields)
        sql = [name for name in fields if name in self.sql_texts | self.sql_structures]
        given = [name for name in sql if getattr(self, name) is not None]
        as_text = [name for name in sql if name in self.sql_texts or not isinstance(getattr(self, name), str)]
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
