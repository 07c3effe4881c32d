"""One sentence for each table feature and table property, for readers who do not know the protocol."""

from __future__ import annotations

from collections.abc import Mapping

_FEATURES: Mapping[str, str] = {
    "appendOnly": "The property delta.appendOnly can forbid changes and deletions of rows.",
    "invariants": "Columns can be NOT NULL.",
    "checkConstraints": "Writers check each row against the CHECK constraints.",
    "generatedColumns": "Writers compute the values of generated columns.",
    "allowColumnDefaults": "Columns can have default values.",
    "identityColumns": "Writers number the rows of identity columns.",
    "changeDataFeed": "Readers can ask for the rows that each version changed, if delta.enableChangeDataFeed is true.",
    "columnMapping": "Columns can be renamed and dropped without a rewrite of the files.",
    "deletionVectors": "A delete can mark rows as deleted instead of rewriting their files.",
    "timestampNtz": "Columns can hold times without a time zone.",
    "v2Checkpoint": "Checkpoints can consist of several files.",
    "inCommitTimestamp": "Commits can record their time, so that time travel does not depend on file times.",
    "domainMetadata": "Writers can store named settings of other features in the log.",
    "clustering": "Liquid clustering: an optimize orders rows by the clustering columns.",
    "rowTracking": "Rows can have ids that stay the same when a file is rewritten.",
    "typeWidening": "The type of a column can become wider, without a rewrite of the files.",
    "typeWidening-preview": "The type of a column can become wider, without a rewrite of the files.",
    "variantType": "Columns can hold semi-structured values (VARIANT).",
    "variantType-preview": "Columns can hold semi-structured values (VARIANT).",
    "variantShredding": "Common fields of variants can have separate Parquet columns.",
    "variantShredding-preview": "Common fields of variants can have separate Parquet columns.",
    "vacuumProtocolCheck": "A vacuum checks that it understands the table before it deletes files.",
    "checkpointProtection": "Log cleanup keeps the checkpoints that older versions need.",
    "materializePartitionColumns": "Data files also contain the partition columns.",
    "icebergCompatV1": "Apache Iceberg can read the data files (version 1 of the rules).",
    "icebergCompatV2": "Apache Iceberg can read the data files (version 2 of the rules).",
    "icebergCompatV3": "Apache Iceberg can read the data files (version 3 of the rules).",
}
_PROPERTIES: Mapping[str, str] = {
    "delta.appendOnly": "true: writers must not change or delete rows.",
    "delta.checkpointInterval": "Writers make a checkpoint after this many commits.",
    "delta.checkpointPolicy": "classic: one file. v2: a checkpoint may consist of several files.",
    "delta.checkpoint.writeStatsAsJson": "Whether checkpoints contain statistics as JSON.",
    "delta.checkpoint.writeStatsAsStruct": "Whether checkpoints contain statistics as columns, which are fast to read.",
    "delta.columnMapping.mode": "name or id: columns can be renamed and dropped.",
    "delta.columnMapping.maxColumnId": "The highest id that column mapping has given to a column.",
    "delta.compatibility.symlinkFormatManifest.enabled": "true: each commit refreshes manifests for Presto and Athena.",
    "delta.dataSkippingNumIndexedCols": "Statistics cover this many of the first columns; -1 means all.",
    "delta.dataSkippingStatsColumns": "Statistics cover these columns.",
    "delta.dataSkippingStringPrefixLength": "Statistics keep this many characters of a text.",
    "delta.deletedFileRetentionDuration": "A vacuum deletes removed files after this time. Time travel ends with them.",
    "delta.enableChangeDataFeed": "true: readers can ask for the rows that each version changed.",
    "delta.enableDeletionVectors": "true: a delete can mark rows instead of rewriting their files.",
    "delta.enableExpiredLogCleanup": "Whether writers delete commits that are older than the log retention.",
    "delta.enableIcebergCompatV1": "true: Apache Iceberg can read the data files (version 1 of the rules).",
    "delta.enableIcebergCompatV2": "true: Apache Iceberg can read the data files (version 2 of the rules).",
    "delta.enableIcebergCompatV3": "true: Apache Iceberg can read the data files (version 3 of the rules).",
    "delta.enableInCommitTimestamps": "true: commits record their time.",
    "delta.inCommitTimestampEnablementTimestamp": "The time of the first commit that records it, in ms UTC.",
    "delta.inCommitTimestampEnablementVersion": "The first version that records its time.",
    "delta.enableRowTracking": "true: rows keep their ids when a file is rewritten.",
    "delta.rowTrackingSuspended": "true: new rows get no ids for now.",
    "delta.enableTypeWidening": "true: the type of a column can become wider.",
    "delta.enableVariantShredding": "true: common fields of variants get separate Parquet columns.",
    "delta.isolationLevel": "Which concurrent commits conflict. Serializable is stricter than WriteSerializable.",
    "delta.logRetentionDuration": "The log keeps commits for this time. Time travel needs them.",
    "delta.minReaderVersion": "The lowest reader version of the table.",
    "delta.minWriterVersion": "The lowest writer version of the table.",
    "delta.randomizeFilePrefixes": "true: data files lie in folders with random names.",
    "delta.requireCheckpointProtectionBeforeVersion": "Log cleanup keeps the checkpoints of versions before this one.",
    "delta.setTransactionRetentionDuration": "The record of a run that wrote the table expires after this time. "
    "A cleared task of an older run writes again.",
    "delta.targetFileSize": "The size of data files that an optimize aims at.",
    "delta.writePartitionColumnsToParquet": "true: data files also contain the partition columns.",
}
_CONSTRAINT = "delta.constraints."


def explain_feature(name: str) -> str:
    """Return the sentence for a table feature; an empty text for an unknown one."""
    return _FEATURES.get(name, "")


def explain_property(key: str) -> str:
    """Return the sentence for a table property; an empty text for an unknown property of Delta."""
    if key in _PROPERTIES:
        return _PROPERTIES[key]
    if key.startswith(_CONSTRAINT):
        return "A CHECK constraint: writers reject rows for which it is false."
    return "" if key.startswith("delta.") else "A property of the table's owner. Delta does not use it."
