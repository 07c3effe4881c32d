"""The public module of the operators.

An operator declares its request class, its job and its parameters. `_submit` does the work. The docstring of each
operator describes its parameters. Importing this module loads neither pyarrow nor Spark.
"""

from __future__ import annotations

from airflow_provider_deltalite.operators._check import DeltaCheckOperator
from airflow_provider_deltalite.operators._checkpoint import DeltaCheckpointOperator
from airflow_provider_deltalite.operators._convert import DeltaConvertOperator
from airflow_provider_deltalite.operators._copy import DeltaCopyOperator
from airflow_provider_deltalite.operators._lake_maintenance import DeltaLakeMaintenanceOperator
from airflow_provider_deltalite.operators._manifest import DeltaGenerateManifestOperator
from airflow_provider_deltalite.operators._merge import DeltaMergeOperator
from airflow_provider_deltalite.operators._optimize import DeltaOptimizeOperator
from airflow_provider_deltalite.operators._restore import DeltaRestoreOperator
from airflow_provider_deltalite.operators._rows import DeltaDeleteOperator, DeltaUpdateOperator
from airflow_provider_deltalite.operators._scd import DeltaScdOperator
from airflow_provider_deltalite.operators._table import DeltaTableOperator
from airflow_provider_deltalite.operators._vacuum import DeltaVacuumOperator
from airflow_provider_deltalite.operators._write import DeltaWriteOperator

__all__ = [
    "DeltaCheckOperator",
    "DeltaCheckpointOperator",
    "DeltaConvertOperator",
    "DeltaCopyOperator",
    "DeltaDeleteOperator",
    "DeltaGenerateManifestOperator",
    "DeltaLakeMaintenanceOperator",
    "DeltaMergeOperator",
    "DeltaOptimizeOperator",
    "DeltaRestoreOperator",
    "DeltaScdOperator",
    "DeltaTableOperator",
    "DeltaUpdateOperator",
    "DeltaVacuumOperator",
    "DeltaWriteOperator",
]
