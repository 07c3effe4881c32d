"""Comparison of version checksums with the log.

Readers trust a readable checksum, so it must be correct. Readers ignore an unreadable checksum, such as a checksum of
an old writer that omitted the protocol and metadata. Protocol: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltalite.inspection.chains import Chain
from deltalite.inspection.commits import TableDefinition
from deltalite.inspection.walk import counts_by_version
from deltalite.log.state import comparable_parts
from deltalite.log.version_checksum import VersionChecksum, parse_version_checksum
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.file_counts import FileCounts


def read_checksums(
    store: LogStore, checksum_files: Mapping[int, StoredFile]
) -> Iterator[tuple[int, VersionChecksum | None]]:
    """Yield each version with its checksum, ascending; None for a checksum that is not valid by the protocol.

    The result omits a checksum file that no longer exists.
    """
    for version, file in sorted(checksum_files.items()):
        data = store.read(file.name)
        if data is not None:
            yield version, parse_version_checksum(data, file.name)


def wrong_checksums(
    store: LogStore,
    chain: Chain,
    checksums: Mapping[int, VersionChecksum],
    definitions: Mapping[int, TableDefinition],
) -> Iterator[tuple[int, str]]:
    """Yield the versions of a chain with wrong checksums, and the problem of each.

    Raises:
        UnusableLogFile, CorruptLogError: the log cannot be read.
    """
    for span in chain.spans():
        checked_versions = checksums.keys() & definitions.keys() & span.commits.keys()
        if chain.start is not None and span.start == chain.start:
            checked_versions |= checksums.keys() & {chain.start.version}
        for version, counts in counts_by_version(store, span, checked_versions) if checked_versions else ():
            problems = list(_problems(checksums[version], definitions[version], counts))
            if problems:
                yield version, "; ".join(problems)


def _problems(checksum: VersionChecksum, definition: TableDefinition, counts: FileCounts) -> Iterator[str]:
    checksum_parts = comparable_parts(checksum.protocol, checksum.metadata)
    log_parts = comparable_parts(definition.protocol, definition.metadata)
    for name in checksum_parts:
        if checksum_parts[name] != log_parts[name]:
            yield (
                f"the {name} is {checksum_parts[name]!s:.200} in the checksum and {log_parts[name]!s:.200} in the log"
            )
    for key, checksum_count, log_count in (
        ("numFiles", checksum.num_files, counts.files),
        ("tableSizeBytes", checksum.table_size_bytes, counts.size_bytes),
        ("numDeletionVectorsOpt", checksum.num_deletion_vectors, counts.vectors),
        ("numDeletedRecordsOpt", checksum.num_deleted_records, counts.deleted_records),
    ):
        if checksum_count is not None and checksum_count != log_count:
            yield f"{key} is {checksum_count} in the checksum and {log_count} in the log"
