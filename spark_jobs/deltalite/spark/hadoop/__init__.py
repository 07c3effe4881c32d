"""Storage through the driver's JVM: Hadoop's FileSystem as a log store, as the tree of a table, and as its folder.

The other rooms and `commands` call it; it knows nothing of DataFrames.
Begin with `opening.py` (the store of a table) and `files.py` (the calls to Java).
"""
