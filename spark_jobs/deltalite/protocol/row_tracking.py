"""Row tracking: when a writer assigns row ids, the high water mark of the ids, and the columns that preserve them.

A table *supports* row tracking if its protocol lists the feature. Writers then assign a base row id and a row commit
version to each new file, unless `delta.rowTrackingSuspended` is set. Row tracking is *enabled* by
`delta.enableRowTracking`. Writers then also preserve the ids of rows that they copy. Protocol: Row Tracking.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltalite.errors import CorruptLogError, InvalidRequestError
from deltalite.protocol import properties as props
from deltalite.protocol.actions import DomainMetadata, Metadata, Protocol
from deltalite.protocol.column_mapping import PHYSICAL_NAME
from deltalite.protocol.features import supported_features
from deltalite.protocol.schema import PrimitiveType, StructField, parse_schema

FEATURE = "rowTracking"
DOMAIN = "delta.rowTracking"
"""The domain that holds the high water mark."""

NO_ROW_ID = -1
"""The high water mark of a table that has assigned no row id."""
HIGHEST_ROW_ID = 2**63 - 1
_MARK = "rowIdHighWaterMark"
ROW_ID_FIELDS = ("baseRowId", "defaultRowCommitVersion")
"""The fields of `add` and `remove` actions from which rows get their row ids and row commit versions."""
ROW_ID_COLUMN = "delta.rowTracking.materializedRowIdColumnName"
COMMIT_VERSION_COLUMN = "delta.rowTracking.materializedRowCommitVersionColumnName"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIdColumns:
    """The columns of data files that hold the row ids and row commit versions of copied rows.

    The columns are not part of the table's schema. Both are `long`. If the value is null, or the file lacks the column,
    the row has the value that the file's `add` action gives it.
    """

    row_id: str
    commit_version: str

    @property
    def names(self) -> tuple[str, str]:
        """Both names."""
        return self.row_id, self.commit_version

    @property
    def fields(self) -> tuple[StructField, ...]:
        """Both columns as fields, which have the same name in files with and without column mapping."""
        return tuple(StructField(name, PrimitiveType("long"), True, {PHYSICAL_NAME: name}) for name in self.names)


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers of the table assign row ids to new files."""
    return FEATURE in supported_features(protocol) and not props.ROW_TRACKING_SUSPENDED.of(metadata.configuration)


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every row of the table has a row id and a row commit version, which writers preserve."""
    return FEATURE in supported_features(protocol) and props.ENABLE_ROW_TRACKING.of(metadata.configuration)


def row_id_columns(protocol: Protocol, metadata: Metadata) -> RowIdColumns | None:
    """Return the columns that preserve row ids, None if row tracking is not enabled.

    Raises:
        CorruptLogError: row tracking is enabled, and the properties do not name two columns, or name a column of the
            schema.
    """
    if not is_enabled(protocol, metadata):
        return None
    row_id, commit_version = (metadata.configuration.get(key) for key in (ROW_ID_COLUMN, COMMIT_VERSION_COLUMN))
    fields = parse_schema(metadata.schema_string)
    column_names = {name.lower() for f in fields for name in (f.name, str(f.metadata.get(PHYSICAL_NAME)))}
    if not row_id or not commit_version or row_id.lower() == commit_version.lower():
        problem = f"the properties {ROW_ID_COLUMN} and {COMMIT_VERSION_COLUMN} do not name two columns"
    elif conflicting_names := column_names & {row_id.lower(), commit_version.lower()}:
        problem = f"the table has a column '{conflicting_names.pop()}', and this name is reserved for row ids"
    else:
        return RowIdColumns(row_id=row_id, commit_version=commit_version)
    raise CorruptLogError(
        f"The table has row tracking, but {problem}.",
        remedy="Repair the table's metadata with the engine that wrote it.",
    )


def row_id_names(columns: RowIdColumns | None) -> tuple[str, ...]:
    """Return the names of the columns; no names if row tracking is not enabled."""
    return () if columns is None else columns.names


def with_row_id_columns(protocol: Protocol, metadata: Metadata) -> Metadata:
    """Return the metadata with names for the columns of `RowIdColumns`, if row tracking is enabled without names.

    Raises:
        InvalidRequestError: row tracking is both enabled and suspended.
    """
    if not is_enabled(protocol, metadata):
        return metadata
    check_not_suspended(metadata.configuration)
    new_names = {
        ROW_ID_COLUMN: f"_row-id-col-{uuid.uuid4()}",
        COMMIT_VERSION_COLUMN: f"_row-commit-version-col-{uuid.uuid4()}",
    }
    return replace(metadata, configuration=new_names | dict(metadata.configuration))


def check_not_suspended(configuration: Mapping[str, str]) -> None:
    """Check that the properties of a table with row tracking do not suspend row ids.

    Raises:
        InvalidRequestError: `delta.rowTrackingSuspended` is true.
    """
    if props.ROW_TRACKING_SUSPENDED.of(configuration):
        raise InvalidRequestError(
            f"{props.ENABLE_ROW_TRACKING.key} and {props.ROW_TRACKING_SUSPENDED.key} are both true.",
            remedy="Set only one of them.",
        )


def high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    """Return the highest row id that any version has assigned; `NO_ROW_ID` if no version has assigned an id.

    Raises:
        CorruptLogError: the domain holds no valid high water mark.
    """
    domain = domains.get(DOMAIN)
    if domain is None or domain.removed:
        return NO_ROW_ID
    try:
        mark = json.loads(domain.configuration)[_MARK]
    except (ValueError, KeyError, TypeError, RecursionError):
        mark = None
    if isinstance(mark, int) and not isinstance(mark, bool) and NO_ROW_ID <= mark <= HIGHEST_ROW_ID:
        return mark
    raise CorruptLogError(
        f"The domain {DOMAIN} is {domain.configuration!r:.200}, which holds no highest row id.",
        remedy="Repair the domain with the engine that wrote it.",
    )


def mark_domain(mark: int) -> DomainMetadata:
    """Return the domain that records the high water mark."""
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({_MARK: mark}, separators=(",", ":")), removed=False)
