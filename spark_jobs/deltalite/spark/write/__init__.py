"""Rows into data files that no version refers to yet, with the values that the table's columns demand.

The rooms for row changes and large tables call it, and `commands`.
Begin with `staging.py`; `column_defaults.py` and `identity_values.py` compute values that the rows lack.
"""
