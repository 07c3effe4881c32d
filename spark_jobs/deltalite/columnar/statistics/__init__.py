"""Statistics of data files for the log.

`columnar.skipping`, `upkeep`, `spark` and the commands that write files call it.
Begin with `footer.py` (from a Parquet footer).
"""
