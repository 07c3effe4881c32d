"""Access to a table's files without Spark, behind the interface `LogStore`.

Every higher layer and the provider call this package; `deltalite.spark` implements the interface for Hadoop.
Begin with `log_store.py` (the interface), then `opening.py` (opens the store of an address).
"""
