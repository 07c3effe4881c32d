"""The record of the files that were loaded into a table: manifests and segments beside the table's log.

`commands.copy`, `txn`, `upkeep` and `table` call this package. Begin with `record.py` (reads and extends the record),
then `manifest.py` (the names and the JSON) and `segment.py` (the Parquet files).
"""
