"""Table properties: their parsed values and defaults, and errors that name unknown properties."""

from __future__ import annotations

import pytest

from deltalite.errors import InvalidRequestError
from deltalite.protocol import properties as props

DAY = 86_400_000


@pytest.mark.parametrize(
    ("prop", "default", "text", "value"),
    [
        (props.APPEND_ONLY, False, "TRUE", True),
        (props.CHECKPOINT_INTERVAL, 10, "3", 3),
        (props.CHECKPOINT_POLICY, "classic", "v2", "v2"),
        (props.DELETED_FILE_RETENTION_MS, 7 * DAY, "interval 1 day", DAY),
        (props.LOG_RETENTION_MS, 30 * DAY, "interval 2 days", 2 * DAY),
        (props.SET_TRANSACTION_RETENTION_MS, None, "interval 1 day", DAY),
        (props.NUM_INDEXED_COLUMNS, 32, "-1", -1),
        (props.STRING_PREFIX_LENGTH, 32, "8", 8),
        (props.STRING_PREFIX_LENGTH, 32, "0", 0),
        (props.STATS_COLUMNS, None, "a,b.c", "a,b.c"),
        (props.TARGET_FILE_SIZE, None, "134217728", 134_217_728),
        (props.TARGET_FILE_SIZE, None, "128mb", 128 * 1024**2),
        (props.TARGET_FILE_SIZE, None, "1 G", 1024**3),
        (props.ISOLATION_LEVEL, "Serializable", "WriteSerializable", "WriteSerializable"),
        (props.ISOLATION_LEVEL, "Serializable", "writeserializable", "WriteSerializable"),
    ],
)
def test_a_property_has_the_value_of_its_text_or_its_default(prop, default, text, value):
    assert prop.of({}) == default
    assert prop.of({prop.key: text, "other": "x"}) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.targetFileSize", "0"),
        ("delta.targetFileSize", "1.5gb"),
        ("delta.targetFileSize", "large"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "ten"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.dataSkippingStringPrefixLength", "-1"),
        ("delta.logRetentionDuration", "1 month"),
        ("delta.isolationLevel", "None"),
        ("delta.isolationLevel", "SnapshotIsolation"),
        ("delta.checkpoint.writeStatsAsStruct", "yes"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.appendonly", "true"),
        ("delta.fromTheFuture", "1"),
        ("delta.constraints.", "id > 0"),
        ("delta.constraints.positive", " "),
        ("delta.columnMapping.maxColumnId", "7"),
        ("mine", 5),
        ("delta.appendOnly", True),
    ],
)
def test_the_error_names_the_key_of_an_invalid_new_property(key, text):
    with pytest.raises(InvalidRequestError, match=key) as caught:
        props.check_new_properties({"fine": "x", key: text})
    assert caught.value.remedy


def test_the_case_of_the_constraint_prefix_does_not_matter():
    props.check_new_properties({"delta.Constraints.positive": "id > 0"})
    with pytest.raises(InvalidRequestError, match=r"delta\.Constraints\.empty"):
        props.check_new_properties({"delta.Constraints.empty": " "})


@pytest.mark.parametrize("key", [props.COLUMN_MAPPING_MAX_ID, props.ICT_ENABLEMENT_VERSION])
def test_a_property_that_writers_maintain_cannot_be_set(key):
    with pytest.raises(InvalidRequestError, match=f"Delta maintains the table property {key}"):
        props.check_new_properties({key: "1"})


def test_properties_of_the_user_are_not_checked():
    props.check_new_properties({"team": "lake", "deltalike": "x", "delta.appendOnly": "true"})


def test_properties_that_this_library_or_other_engines_use_may_be_set():
    props.check_new_properties(
        {
            "delta.isolationLevel": "WriteSerializable",
            "delta.checkpoint.writeStatsAsStruct": "false",
            "delta.checkpoint.writeStatsAsJson": "false",
            "delta.checkpointPolicy": "v2",
            "delta.logRetentionDuration": "30 days",
            "delta.enableExpiredLogCleanup": "true",
            "delta.constraints.positive": "id > 0",
            "delta.feature.inCommitTimestamp": "supported",
            "delta.minWriterVersion": "7",
        }
    )
