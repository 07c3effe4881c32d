"""The triggers: the one that a deferred sensor waits in, and the one for an `AssetWatcher`."""

from airflow_provider_deltalite.triggers._table import DeltaTableTrigger
from airflow_provider_deltalite.triggers._version import DeltaVersionTrigger

__all__ = ["DeltaTableTrigger", "DeltaVersionTrigger"]
