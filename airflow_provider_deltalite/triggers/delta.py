"""The triggers: those of the sensor, and the one for an `AssetWatcher`."""

from airflow_provider_deltalite.triggers._table import DeltaTableTrigger
from airflow_provider_deltalite.triggers._version import DeltaVersionStartTrigger, DeltaVersionTrigger

__all__ = ["DeltaTableTrigger", "DeltaVersionStartTrigger", "DeltaVersionTrigger"]
