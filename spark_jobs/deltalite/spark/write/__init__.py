"""Writes rows into data files that no version refers to yet, with values for columns that the rows lack.

`commands` and other packages of `spark` call it.
Begin with `staging.py`; `column_defaults.py` and `identity_values.py` compute values that the rows lack.
"""
