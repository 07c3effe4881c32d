"""The operations on a table. Each one plans, writes files and commits exactly once per run.

Only `jobs` calls this package, with a request. pyspark is imported for types only.
An operation is a module (`delete.py`) or a package (`write`), with the function of its name. Begin with
`write/command.py` (the order of steps), then read the room `common`, which all operations share.
"""
