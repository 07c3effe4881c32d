"""Tables as Airflow assets: their URI, their watcher and their events.

Users' DAGs call it, and the provider's operators and triggers.
Begin with `delta.py`.
"""
