"""The buttons of a task in Airflow's interface, such as the link to Spark's interface.

Airflow calls it through the operators.
Begin with `delta.py`.
"""
