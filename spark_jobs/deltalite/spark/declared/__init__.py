"""A table that a task declares: its schema in SQL, and the check of the rows that a new rule affects.

`commands/table` calls this package. Begin with `schema.py`.
"""
