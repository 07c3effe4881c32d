"""The public triggers: two for the sensor, and one for an `AssetWatcher`."""

from airflow_provider_deltalite.triggers._table import DeltaTableTrigger
from airflow_provider_deltalite.triggers._version import DeltaVersionStartTrigger, DeltaVersionTrigger

__all__ = ["DeltaTableTrigger", "DeltaVersionStartTrigger", "DeltaVersionTrigger"]
