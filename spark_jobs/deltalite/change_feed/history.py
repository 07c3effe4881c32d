"""The versions of a range, one after the other: their protocols and schemas, and whether they recorded changes."""

from __future__ import annotations

from deltalite.change_feed.columns import reserved_column
from deltalite.errors import ChangeFeedUnavailableError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.column_mapping import TableSchema, table_schema_of
from deltalite.protocol.features import check_readable, is_in_force
from deltalite.protocol.read_compatibility import incompatibility
from deltalite.protocol.schema import parse_schema
from deltalite.snapshot import Snapshot

_FEATURE = "changeDataFeed"


class VersionHistory:
    """The protocol and metadata of the version that was applied last, and the schemas of all versions so far.

    With `needs_feed`, each version must have recorded its changes. `table_ids` has the table ids of all versions: a
    table that was replaced in place has several. `starts_with_metadata` is true if the commit of the first version sets
    the metadata. The rows that it removes may then have another schema.
    """

    def __init__(self, start: Snapshot, *, needs_feed: bool) -> None:
        self._root = start.store.root
        self._needs_feed = needs_feed
        self._protocol, self._metadata = start.protocol, start.metadata
        self._schemas: list[tuple[int, TableSchema]] = [(start.version, start.table_schema)]
        self.table_ids = {start.metadata.id}
        self.starts_with_metadata = False
        self._check_feed(start.version)

    def apply_commit(self, version: int, protocol: Protocol | None, metadata: Metadata | None) -> None:
        """Apply the protocol and metadata of a commit, and check that the table still records changes.

        Raises:
            ChangeFeedUnavailableError: the table no longer records changes, or a column has a reserved name.
            UnsupportedFeatureError: this release cannot read the new protocol.
        """
        if protocol is None and metadata is None:
            return
        if version == self._schemas[0][0] and metadata is not None:
            self.starts_with_metadata = True
        self._protocol, self._metadata = protocol or self._protocol, metadata or self._metadata
        self.table_ids.add(self._metadata.id)
        check_readable(self._protocol, self._metadata)
        self._check_feed(version)
        self._schemas.append((version, table_schema_of(self._protocol, self._metadata)))

    def check_readable_as(self, last_schema: TableSchema) -> None:
        """Check that the rows of all versions are readable with the schema of the last version.

        Raises:
            ChangeFeedUnavailableError: `last_schema` cannot read the rows of a version. The message names the version
                that changed the schema.
        """
        for index, (version, schema) in enumerate(self._schemas):
            reason = incompatibility(schema, last_schema)
            if reason is None:
                continue
            changed_in_version = next(
                v for v, later_schema in self._schemas[index + 1 :] if incompatibility(schema, later_schema) is not None
            )
            raise ChangeFeedUnavailableError(
                f"The changes of version {version} of {self._root} cannot be read with the schema of version "
                f"{self._schemas[-1][0]}: in version {changed_in_version} {reason}.",
                remedy=f"Request two ranges: up to version {changed_in_version - 1}, and from "
                f"version {changed_in_version} on.",
                last_readable_version=changed_in_version - 1,
            )

    def _check_feed(self, version: int) -> None:
        """Raise `ChangeFeedUnavailableError` if the feed is off at a version, or a column has a reserved name."""
        if not self._needs_feed:
            return
        if not is_in_force(_FEATURE, self._protocol, self._metadata):
            raise ChangeFeedUnavailableError(
                f"Version {version} of {self._root} did not record its changes: the change data feed is off.",
                remedy="Request versions since delta.enableChangeDataFeed was set to true.",
                are_recorded=False,
            )
        name = reserved_column(parse_schema(self._metadata.schema_string))
        if name is not None:
            raise ChangeFeedUnavailableError(
                f"Version {version} of {self._root} has a column called '{name}', a name that the change data feed "
                "reserves.",
                remedy="Rename the column, and request only versions after the rename.",
            )
