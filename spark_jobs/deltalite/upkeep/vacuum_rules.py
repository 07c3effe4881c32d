"""The rules of a vacuum: the retention, hidden names, and the file names that the paths in the log mean.

1. A removed file is kept until the retention has passed since its removal.
2. A file that no version names may belong to a commit in progress. It is kept until it is older than the retention and
   older than a day.
3. Names that begin with `_` or `.` are hidden and stay, with everything below them. Exceptions are change data,
   indexes, directories of partition columns with such names, temporary files and the staging folder of this library. In
   a table with Iceberg metadata, the name `metadata` is hidden too.
4. A path in the log protects every name that the path may mean. It allows the deletion of only its exact name inside
   the table.

delta-spark: DeltaTableUtils.isHiddenDirectory, VacuumCommand. Protocol: Add File and Remove File.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from deltalite.errors import InvalidRequestError
from deltalite.protocol import properties as props
from deltalite.protocol.file_names import LOG_DIR, STAGING_DIR
from deltalite.protocol.iceberg_compat import may_have_iceberg_metadata
from deltalite.protocol.paths import decode_path, is_absolute
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot

IN_FLIGHT_MS = props.DAY_MS
"""The age at which a vacuum may delete a file that no version names. A younger file may belong to a commit in progress.

A short retention does not reduce this age.
"""

_VISIBLE_PREFIXES = ("_change_data", "_delta_index")
# The temporary file of a killed writer of this library: `.deletion_vector_<uuid>.bin.<uuid>.tmp`.
_TEMPORARY_NAME_PATTERN = re.compile(r"\..+\.[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\.tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The retention of removed files at the time `now_ms`.

    `table_ms` is the retention of the table. `specified_ms` is the requested retention; None means `table_ms`.
    """

    now_ms: int
    table_ms: int
    specified_ms: int | None = None

    @property
    def cutoff_ms(self) -> int:
        """The start of the retention: a version that was current at this time or later stays complete."""
        return self.now_ms - (self.table_ms if self.specified_ms is None else self.specified_ms)

    @property
    def in_flight_since_ms(self) -> int:
        """The earliest modification time of a file that may belong to a commit in progress."""
        return self.now_ms - IN_FLIGHT_MS

    @property
    def unnamed_before_ms(self) -> int:
        """A vacuum deletes a file that no version names if the file was modified before this time."""
        return min(self.cutoff_ms, self.in_flight_since_ms)

    @property
    def is_short(self) -> bool:
        """Whether the requested retention is shorter than that of the table."""
        return self.specified_ms is not None and self.specified_ms < self.table_ms


def retention_of(
    configuration: Mapping[str, str], hours: int | None, *, confirmed: bool, now_ms: int, table: str
) -> Retention:
    """Return the retention from a table's properties and a request.

    Raises:
        InvalidRequestError: the requested retention is shorter than the table's, and `confirmed` is False; or the
            property is invalid.
    """
    specified_ms = None if hours is None else hours * props.HOUR_MS
    retention = Retention(
        now_ms=now_ms, table_ms=props.DELETED_FILE_RETENTION_MS.of(configuration), specified_ms=specified_ms
    )
    if retention.is_short and not confirmed:
        table_hours = counted(f"{retention.table_ms / props.HOUR_MS:g}", "hour")
        raise InvalidRequestError(
            f"A retention of {counted(hours, 'hour')} is shorter than the {table_hours} of {table} "
            f"({props.DELETED_FILE_RETENTION_MS.key}): readers, streams and time travel could lose files that they "
            "need.",
            remedy=f"Leave out retention_hours, or set the table's property. If nobody needs versions older than "
            f"{counted(hours, 'hour')}, set confirm_short_retention={table.rstrip('/').rpartition('/')[2]!r}.",
        )
    return retention


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenNames:
    """The rule for names that a vacuum ignores; `partition_columns` are column names in partition directories."""

    partition_columns: frozenset[str] = frozenset()
    has_iceberg_metadata: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot) -> HiddenNames:
        """Return the rule for a table."""
        columns = {*snapshot.partition_columns, *snapshot.table_schema.partition_keys}
        return cls(
            partition_columns=frozenset(columns), has_iceberg_metadata=may_have_iceberg_metadata(snapshot.configuration)
        )

    def hides(self, base: str) -> bool:
        """Whether a vacuum ignores files and folders with this base name."""
        if base == "metadata" and self.has_iceberg_metadata:
            return True
        if (
            not base.startswith((".", "_"))
            or base.startswith(_VISIBLE_PREFIXES)
            or _TEMPORARY_NAME_PATTERN.fullmatch(base)
        ):
            return False
        column, equals, _ = base.partition("=")
        return not (equals and unquote(column) in self.partition_columns)

    def hides_any_part(self, name: str) -> bool:
        """Whether a part of a name below the root is hidden."""
        return any(map(self.hides, name.split("/")))


def is_staged(name: str) -> bool:
    """Whether a name is the staging folder or below it. A vacuum deletes the content of this folder by its age."""
    return name == STAGING_DIR or name.startswith(f"{STAGING_DIR}/")


def hadoop_checksum_name(base: str) -> str:
    """Return the name of Hadoop's checksum file for a local file; both are deleted together."""
    return f".{base}.crc"


def is_log_of_another_table(folder: str) -> bool:
    """Whether the name of a folder below the root is that of a log; its parent folder is then another table."""
    return folder.endswith(f"/{LOG_DIR}")


def protected_names(path: str) -> tuple[tuple[str, ...], str | None]:
    """Return the names in the table that a path in the log may mean, or a base name to keep in any folder.

    Some writers encode less than the protocol requires. Other writers use an absolute path for a file of the table,
    with another scheme, mount or link. Base names of data files are unique, so the base name is enough for such a path.
    """
    names = {posixpath.normpath(name) for name in (decode_path(path), path)}
    is_elsewhere = is_absolute(path) or any(is_absolute(name) or name.startswith("../") for name in names)
    return ((), posixpath.basename(decode_path(path))) if is_elsewhere else (tuple(names), None)
