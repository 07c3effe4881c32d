"""Columns of a DataFrame: their names, their types, and the conversions between rows, data files and the table.

All other packages of `spark` that handle rows call it. It reads no file.
Begin with `types.py`, then `presenting.py` (data files to table) and `conforming.py` (rows to table).
"""
