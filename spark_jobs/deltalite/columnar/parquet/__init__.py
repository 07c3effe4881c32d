"""Parquet files in Arrow: their opening, schemas, columns, old calendars and variants.

`columnar.reader`, `inspection`, and the commands that open data files call it.
Begin with `file_columns.py` (the columns of a file as columns of the table).
"""
