"""Values about a table: differences between versions, faults, health, and what a page shows of it and its commits.

`cli` and the page in Airflow show them. A maintenance uses the health, and a restore the search for missing files. The
package does not need Spark. Begin with `verify.py` (the steps of a verification), `diff.py`, `health.py` and
`overview.py`.
"""
