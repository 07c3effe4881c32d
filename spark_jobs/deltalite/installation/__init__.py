"""The locations and versions of Spark and Java, the checks of `deltalite doctor`, and archives of Spark's classes.

`cli` and the provider call the package. It uses only the standard library.
Begin with `checks.py` (the result of a check), then `doctor.py`.
"""
