"""The Spark session of a job, the errors that Spark raises, and rows that are computed once for several uses.

Every package of `spark` may call it.
Begin with `session.py` (settings that hold for one step), `errors.py` (Spark's errors as typed errors)
and `java_classes.py` (Java classes by their names).
"""
