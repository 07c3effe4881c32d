"""The links of a task in Airflow's UI: the Spark application and the commit.

Airflow gets the links from the operators.
Begin with `delta.py`.
"""
