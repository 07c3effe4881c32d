"""The sensor that waits for a version of a table.

Users' DAGs import `delta.py` only.
Begin with `delta.py`; the poll itself is in `airflow_provider_deltalite.waiting`.
"""
