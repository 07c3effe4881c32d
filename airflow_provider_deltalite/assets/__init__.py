"""Delta tables as Airflow assets: URI, watcher and events.

Users' DAGs and the provider's operators and triggers call it.
Begin with `delta.py`.
"""
