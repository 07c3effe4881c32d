"""The links of a task in Airflow's UI: the Spark application and the commit.

Airflow calls it through the operators.
Begin with `delta.py`.
"""
