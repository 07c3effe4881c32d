"""The operations on a table. An operation that changes rows plans, writes files and commits exactly once per run.

Only `jobs` calls this package, with a request. The package imports pyspark for types only. Each operation is a module
(`delete.py`) or a package (`write`). Its function has the same name, except `define_table` of the package `table`.
Begin with `write/command.py` (the order of steps), then read the package `common`, which the operations share.
"""
