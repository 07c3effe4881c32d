"""Delta Lake as Airflow tasks: the package that knows Airflow, and neither Spark nor the table format."""

from deltalite.version import VERSION

__version__ = VERSION
