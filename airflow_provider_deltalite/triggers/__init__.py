"""Triggers for the triggerer: one waits for a version, one watches a table for asset events.

Airflow, the sensor and users' asset watchers call `delta.py`; the other modules are private.
Begin with `_version.py`, then `_table.py`.
"""
