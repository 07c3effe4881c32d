"""Columns of a DataFrame: their names, their types, and the conversions between rows, data files and the table.

Every room above calls it; it reads no file and parses no SQL.
Begin with `types.py`, then `presenting.py` (data files to table) and `conforming.py` (rows to table).
"""
