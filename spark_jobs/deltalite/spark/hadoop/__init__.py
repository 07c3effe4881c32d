"""Storage through the driver's JVM: Hadoop's FileSystem as a log store, as the tree of a table, and as its folder.

`commands` and the other packages of `spark` call this package. It does not use DataFrames.
Begin with `opening.py` (the store of a table) and `files.py` (the calls to Java).
"""
