"""Comparison of version checksums with the log.

Readers ignore an unreadable checksum; old writers omitted the protocol and metadata. Readers trust a readable one, so
it must be correct. Protocol: Version Checksum File.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltalite.inspection.chains import Chain
from deltalite.inspection.commits import Rules
from deltalite.inspection.walk import counts_by_version
from deltalite.log.state import facts_of
from deltalite.log.version_checksum import VersionChecksum, parse_version_checksum
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.checksum import FileCounts


def read_checksums(store: LogStore, files: Mapping[int, StoredFile]) -> Iterator[tuple[int, VersionChecksum | None]]:
    """Yield each version and its checksum, ascending; None for a checksum that is not valid by the protocol."""
    for version, file in sorted(files.items()):
        data = store.read(file.name)
        if data is not None:
            yield version, parse_version_checksum(data, file.name)


def wrong_checksums(
    store: LogStore, chain: Chain, checksums: Mapping[int, VersionChecksum], rules: Mapping[int, Rules]
) -> Iterator[tuple[int, str]]:
    """Yield the versions of a chain with wrong checksums, and the problem of each.

    Raises:
        PassOver, CorruptLogError: the log cannot be read.
    """
    for span in chain.spans():
        checked_versions = checksums.keys() & rules.keys() & span.commits.keys()
        if chain.start is not None and span.start == chain.start:
            checked_versions |= checksums.keys() & {chain.start.version}
        for version, counts in counts_by_version(store, span, checked_versions) if checked_versions else ():
            problems = list(_problems(checksums[version], rules[version], counts))
            if problems:
                yield version, "; ".join(problems)


def _problems(checksum: VersionChecksum, rules: Rules, counts: FileCounts) -> Iterator[str]:
    in_checksum, in_log = facts_of(checksum.protocol, checksum.metadata), facts_of(rules.protocol, rules.metadata)
    for name in in_checksum:
        if in_checksum[name] != in_log[name]:
            yield f"the {name} {in_checksum[name]!s:.200} where the log has {in_log[name]!s:.200}"
    for key, claimed, actual in (
        ("numFiles", checksum.num_files, counts.files),
        ("tableSizeBytes", checksum.table_size_bytes, counts.size_bytes),
        ("numDeletionVectorsOpt", checksum.num_deletion_vectors, counts.vectors),
        ("numDeletedRecordsOpt", checksum.num_deleted_records, counts.deleted_records),
    ):
        if claimed is not None and claimed != actual:
            yield f"{key} {claimed} where the log gives {actual}"
