"""Delta tables as Airflow assets: URI, watcher and events.

Users' DAGs and the provider's operators and triggers import this package.
Begin with `delta.py`.
"""
