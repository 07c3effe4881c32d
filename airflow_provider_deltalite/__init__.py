"""Delta Lake as Airflow tasks. This package knows Airflow, but neither Spark nor the table format.

Users' DAGs import `operators.delta`, `sensors.delta`, `assets.delta` and `task_groups.delta`.
Begin with `operators/_submit.py`, then `idempotency.py` and `outcome.py`.
"""

from deltalite.version import VERSION

__version__ = VERSION
