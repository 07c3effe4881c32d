"""SQL text as Spark columns and as predicate trees, resolved and checked before a row is read.

Other packages of `spark` and the `commands` call it.
Begin with `sql.py`, then `predicates.py`; `catalyst.py` reads the plans that Spark makes.
"""
