"""Storage through the driver's JVM: Hadoop's FileSystem as a log store, as the tree of a table, and as its folder.

The other packages of `spark` and `commands` call it. It does not use DataFrames.
Begin with `opening.py` (the store of a table) and `files.py` (the calls to Java).
"""
