"""Where Spark and Java are installed, which versions, and the checks of `deltalite doctor`.

`cli` and the provider call it; standard library only.
Begin with `checks.py` (a check as a value), then `doctor.py`.
"""
