"""Triggers that wait for a version of a table, or watch a table for asset events.

Airflow, the sensor and users' asset watchers import `delta.py`; the other modules are private.
Begin with `_version.py`, then `_table.py`.
"""
