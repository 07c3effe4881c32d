"""Keeps the secrets of a task out of rendered fields and logs.

`deltalite.redaction` decides which values are secret. This module passes them to Airflow's masker before and after
templates are rendered. So Airflow shows stars in rendered fields and in the task's log.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import mask_secret


class HidesSecrets:
    """Mixin of operators and sensors that hides the secrets in their fields.

    Airflow calls `_do_render_template_fields` for every operator, and no other method to render a mapped operator.
    """

    template_fields: Any

    def values_with_secrets(self) -> object:
        """Return the values that may contain secrets: the fields that Airflow shows, by name."""
        return {name: getattr(self, name, None) for name in self.template_fields}

    def _do_render_template_fields(
        self, parent: Any, template_fields: Any, context: Any, jinja_env: Any, seen_oids: set[int]
    ) -> None:
        """Render as Airflow does, and hide secrets before and after.

        Literal secrets are hidden before, because Airflow logs a template that it fails to render.
        """
        hide(self.values_with_secrets())
        try:
            super()._do_render_template_fields(  # type: ignore[misc]  # Airflow's templater follows this mixin
                parent, template_fields, context, jinja_env, seen_oids
            )
        finally:
            hide(self.values_with_secrets())


def hide(settings: object) -> None:
    """Pass the secrets in a structure of settings to Airflow's masker."""
    from deltalite.redaction import secret_values

    for value in set(secret_values(settings)):
        mask_secret(value)
