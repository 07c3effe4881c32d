"""Triggers that wait for a version of a table, watch a table for asset events, or wait for the driver of a job.

Airflow, the sensor and users' asset watchers import `delta.py`. Deferred operators use `driver.py`, which DAG parsing
does not import. The other modules are private. Begin with `_version.py`, then `_table.py`.
"""
