"""What a vacuum goes by: how long files are kept, which names it may touch, and how the log's paths spell names.

1 A file that the log has removed is kept until the retention has passed since its removal. 2 A file that no version
names may belong to a commit in flight: it is kept until it is older than the retention, and than a day. 3 Names that
begin with `_` or `.` are hidden and stay, and so does what is below them, but for change data, indexes, and the
directories of partition columns that are called so; what our own writers left behind is not hidden either. 4 A path of
the log protects every name that it may spell, and condemns only the one that it does spell, inside the table.
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
from deltalite.protocol.paths import canonical_path, decode_path, is_absolute
from deltalite.snapshot import Snapshot

IN_FLIGHT_MS = props.DAY_MS
"""So old at least is a file that no version names before it goes, whatever the retention."""

_NOT_HIDDEN = ("_change_data", "_delta_index")
# What a writer of this library, killed while it wrote a file, leaves: `.deletion_vector_<uuid>.bin.<uuid>.tmp`.
_OWN_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\.tmp")
_UNIFORM_FORMATS = "delta.universalFormat.enabledFormats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long a vacuum keeps what was removed. `specified_ms` is what was asked for, None for the table's own."""

    now_ms: int
    table_ms: int
    specified_ms: int | None = None

    @property
    def cutoff_ms(self) -> int:
        """The versions that were current at this moment or later stay whole; what was removed before it goes."""
        return self.now_ms - (self.table_ms if self.specified_ms is None else self.specified_ms)

    @property
    def in_flight_since_ms(self) -> int:
        """A file that changed at this moment or later may belong to a commit in flight."""
        return self.now_ms - IN_FLIGHT_MS

    @property
    def unnamed_before_ms(self) -> int:
        """Files that no version names go where they are older than this."""
        return min(self.cutoff_ms, self.in_flight_since_ms)

    @property
    def is_short(self) -> bool:
        """Whether less is kept than the table asks for."""
        return self.specified_ms is not None and self.specified_ms < self.table_ms


def retention_of(
    configuration: Mapping[str, str], hours: int | None, *, confirmed: bool, now_ms: int, table: str
) -> Retention:
    """The retention that a table's properties and a request come to.

    Raises:
        InvalidRequestError: it is shorter than the table's, and that was not confirmed; or the property is wrong.
    """
    specified_ms = None if hours is None else hours * props.HOUR_MS
    found = Retention(
        now_ms=now_ms, table_ms=props.DELETED_FILE_RETENTION_MS.of(configuration), specified_ms=specified_ms
    )
    if found.is_short and not confirmed:
        raise InvalidRequestError(
            f"A retention of {hours} hours is shorter than the {found.table_ms / props.HOUR_MS:g} hours that {table} "
            f"asks for ({props.DELETED_FILE_RETENTION_MS.key}): readers, streams and time travel could lose files that "
            "they need.",
            remedy=f"Leave retention_hours out, or set the table's property. Where nobody needs versions older than "
            f"{hours} hours, confirm_short_retention={table.rstrip('/').rpartition('/')[2]!r} says so for this table.",
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenNames:
    """Which names in a table's folder are none of a vacuum's business; `partition_columns` are those of directories."""

    partition_columns: frozenset[str] = frozenset()
    has_iceberg_metadata: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot) -> HiddenNames:
        """Those of a table."""
        columns = {*snapshot.partition_columns, *snapshot.table_schema.partition_keys}
        formats = snapshot.configuration.get(_UNIFORM_FORMATS, "")
        return cls(partition_columns=frozenset(columns), has_iceberg_metadata="iceberg" in formats.lower())

    def hides(self, base: str) -> bool:
        """Whether a file or folder of this name, wherever it lies, is left alone."""
        if base == "metadata" and self.has_iceberg_metadata:
            return True
        if not base.startswith((".", "_")) or base.startswith(_NOT_HIDDEN) or _OWN_TEMPORARY.fullmatch(base):
            return False
        column, equals, _ = base.partition("=")
        return not (equals and unquote(column) in self.partition_columns)

    def hides_any_part(self, name: str) -> bool:
        """Whether a part of a name below the root is hidden."""
        return any(map(self.hides, name.split("/")))


def is_staged(name: str) -> bool:
    """Whether a name is our staging folder, or below it: hidden from everybody, and swept by age."""
    return name == STAGING_DIR or name.startswith(f"{STAGING_DIR}/")


def checksum_of(base: str) -> str:
    """The file beside a file of this name in which Hadoop keeps its checksum on local disks; it goes with the file."""
    return f".{base}.crc"


def holds_a_log(folder: str) -> bool:
    """Whether a folder, by its name, is the log of another table, which makes the folder above it that table."""
    return folder.endswith(f"/{LOG_DIR}")


def protected_names(path: str) -> tuple[tuple[str, ...], str | None]:
    """The names below the table that a path of the log may mean, and the base name to be kept wherever it lies.

    Some writers encode less than the protocol asks, and some spell a file of the table as a place of its own, through
    another scheme, mount or link; no two data files share a base name, so that this is enough to tell them.
    """
    names = {posixpath.normpath(spelled) for spelled in (decode_path(path), path)}
    is_elsewhere = is_absolute(path) or any(is_absolute(name) or name.startswith("../") for name in names)
    return ((), posixpath.basename(decode_path(path))) if is_elsewhere else (tuple(names), None)


def condemned_name(path: str, root: str) -> str | None:
    """The name below the table that a path of the log spells; None for a place outside, or the root itself."""
    name = canonical_path(path)
    if is_absolute(name):
        if not name.startswith(f"{root}/"):
            return None
        name = name.removeprefix(f"{root}/")
    name = posixpath.normpath(name)
    return name if name != "." and is_inside(name) else None


def is_inside(name: str) -> bool:
    """Whether a real name, as the log has it, is of a file below the table, and says so without detours."""
    return not is_absolute(name) and not {"", ".", ".."} & set(name.split("/"))
