"""Airflow hooks: one reads a table's log, one submits a job and sorts its output.

Operators, sensor, triggers and users call them.
Begin with `delta.py` (from a connection to a table) or `spark_submit.py`.
"""
