"""The locations and versions of Spark and Java, and the checks of `deltalite doctor`.

`cli` and the provider call it. The package uses only the standard library.
Begin with `checks.py` (the result of a check), then `doctor.py`.
"""
