"""The operations on a table. Each one plans, writes files and commits exactly once per run.

Only `jobs` calls this package, with a request. The package imports pyspark for types only.
Each operation is a module (`delete.py`) or a package (`write`), and its function has the same name. Begin with
`write/command.py` (the order of steps), then read the package `common`, which all operations share.
"""
