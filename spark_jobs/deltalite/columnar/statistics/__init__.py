"""Statistics of data files for the log.

`columnar.skipping`, `upkeep`, `inspection`, `spark` and `commands` call it.
Begin with `footer.py` (from a Parquet footer).
"""
