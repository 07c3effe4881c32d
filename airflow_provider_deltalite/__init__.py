"""Delta Lake as Airflow tasks. This package imports Airflow and never Spark: it submits jobs that run in Spark.

Users' DAGs import `operators.delta`, `sensors.delta`, `assets.delta`, `task_groups.delta`, `hooks.delta` and `retries`.
Begin reading with `operators/_submit.py`, then `idempotency.py` and `outcome.py`.
"""

from deltalite.version import VERSION

__version__ = VERSION
