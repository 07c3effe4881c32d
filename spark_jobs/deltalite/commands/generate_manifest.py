"""The manifest command: writes the symlink manifests of the newest version, for engines that read lists of files.

The command commits nothing, so it records no run, and each run writes all manifests again. An error fails the task. The
manifests that were written before the error stay, and each manifest is complete. delta-spark: DeltaGenerateCommand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalite.phases import PHASES, Phase
from deltalite.requests import GenerateManifestRequest
from deltalite.results import OperationResult, manifest_result
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.hadoop.tree import tree_of
from deltalite.storage.versioned_path import refuse_version
from deltalite.upkeep.manifests import generate_manifests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def generate_manifest(spark: SparkSession, request: GenerateManifestRequest) -> OperationResult:
    """Write a manifest for each partition of the newest version, and delete the manifests of removed partitions.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: readers of manifests do not support a feature of the table (deletion vectors, column
            mapping), or this release does not read a feature. Nothing is written.
        ConcurrentWriteException: other writers kept changing the table.
        DeltaLiteError: the log cannot be read, or storage failed.
    """
    refuse_version(request.table)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    PHASES.begin(Phase.WRITE)
    counts = generate_manifests(store, tree_of(spark, store.root))
    metrics = {"numManifests": counts.manifests, "numFiles": counts.files, "numDeletedManifests": counts.deleted}
    return manifest_result(store.root, counts.version, metrics=metrics)
