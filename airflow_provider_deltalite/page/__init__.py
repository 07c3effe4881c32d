"""The page *Delta tables* in Airflow's UI: which tables there are, their health, and what each run did to them.

The package runs in Airflow's API server only. The plugin imports `registration.py`, which is small, because every
process of Airflow loads plugins. The first request imports the rest.

- `registration.py`: the entries in Airflow's menu and tabs, and the app that is built at the first request
- `app.py`, `*_routes.py`: the routes; each loads values, builds a view and renders a template
- `access.py`, `database.py`: what the user may read, and what Airflow's database knows
- `known_tables.py`, `roots.py`, `table_list.py`: the tables that pages can show; no other table is ever opened
- `reading.py`, `read_pool.py`, `cache.py`: bounded reads of tables
- `maintenance_routes.py`, `maintenance_view.py`, `run_start.py`, `form_tokens.py`: the button that starts a DAG run
- `freshness.py`, `spans.py`: whether the last commit of a table is late
- `*_view.py`, `snippets.py`, `explanations.py`: values for the templates; they read nothing
- `rendering.py`, `links.py`: the templates with their filters and headers, and the addresses in them
- `services.py`, `settings.py`: the parts that the app uses, which tests replace, and the settings

Begin with `app.py`. Docs: docs/how-to/see-tables-in-airflow.md; decision 89.
"""
