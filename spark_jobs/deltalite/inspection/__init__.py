"""Values about a table and its commits: differences between versions, errors, health, and the values for a page.

`cli` and the page in Airflow show these values. The maintenance command uses the health, and the restore command uses
the search for missing files. The package does not need Spark. Begin with `verify.py` (the steps of a verification),
`diff.py`, `health.py` and `overview.py`.
"""
