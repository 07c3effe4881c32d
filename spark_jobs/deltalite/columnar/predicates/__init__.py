"""Predicates on rows: their tree, their binding to a schema, and their evaluation for files and for rows.

The rooms `skipping`, `statistics` and `reader`, and the layers above call it.
Begin with `predicate.py` (the tree), then `outcomes.py` (for files) and `row_filter.py` (for rows).
"""
