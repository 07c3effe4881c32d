"""Writes rows into data files that no version refers to yet, with values for columns that the rows lack.

The packages for row changes and large tables call it, and so do `commands`.
Begin with `staging.py`; `column_defaults.py` and `identity_values.py` compute values that the rows lack.
"""
