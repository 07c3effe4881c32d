"""Comparison of a checkpoint or log compaction with the commits that it replaces.

A checkpoint may omit expired transactions, tombstones and removed domains, so these do not count as differences. Files
are compared by identity, size and partition values. Statistics have several valid forms, so `footers.py` compares them
with the footers instead. Protocol: Action Reconciliation, Checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.log.file_table import key_column
from deltalite.log.replay import ReplayedLog
from deltalite.log.state import comparable_parts
from deltalite.protocol import properties as props
from deltalite.protocol.actions import SetTransaction
from deltalite.sizes import counted

_COLUMNS = ("path", "size", "partitionValues", "deletionVector")
_MAX_SHOWN_PATHS = 3


def differences(actual: ReplayedLog, expected: ReplayedLog) -> Iterator[str]:
    """Yield the differences of `actual` from `expected`, as sentences without a subject.

    Raises:
        UnusableLogFile: the files of one log cannot be read.
    """
    actual_parts, expected_parts = (comparable_parts(log.protocol, log.metadata) for log in (actual, expected))
    for name in actual_parts:
        if actual_parts[name] != expected_parts[name]:
            yield (
                f"contains the {name} {actual_parts[name]!s:.200}, but the commits contain "
                f"{expected_parts[name]!s:.200}"
            )
    yield from _transaction_differences(actual.transactions, expected)
    actual_domains, expected_domains = (
        {name: domain.configuration for name, domain in log.domains.items()} for log in (actual, expected)
    )
    for domain in sorted(actual_domains.keys() | expected_domains.keys()):
        if actual_domains.get(domain) != expected_domains.get(domain):
            yield f"differs from the commits in the domain '{domain}'"
    yield from _file_differences(actual.files(_COLUMNS), expected.files(_COLUMNS))


def _transaction_differences(actual: Mapping[str, SetTransaction], expected: ReplayedLog) -> Iterator[str]:
    may_expire = props.SET_TRANSACTION_RETENTION_MS.of(expected.metadata.configuration) is not None
    for app_id, expected_transaction in expected.transactions.items():
        actual_transaction = actual.get(app_id)
        if actual_transaction is None and not may_expire:
            yield f"lacks the transaction of '{app_id}'"
        elif actual_transaction is not None and actual_transaction.version != expected_transaction.version:
            yield (
                f"contains version {actual_transaction.version} of the transaction of '{app_id}', but the commits "
                f"contain version {expected_transaction.version}"
            )
    for app_id in actual.keys() - expected.transactions.keys():
        if not may_expire:
            yield f"contains a transaction of '{app_id}' that no commit contains"


def _file_differences(actual: pa.Table, expected: pa.Table) -> Iterator[str]:
    actual_rows, expected_rows = (_by_key(files) for files in (actual, expected))
    if surplus_keys := _keys_only_in(actual_rows, expected_rows):
        yield f"contains {_format_keys(surplus_keys)} that the commits never added or have removed"
    if missing_keys := _keys_only_in(expected_rows, actual_rows):
        yield f"lacks {_format_keys(missing_keys)} that the commits added and did not remove"
    joined = actual_rows.join(expected_rows, "key", join_type="inner", right_suffix="_expected")
    if joined.num_rows:
        sizes = [pc.fill_null(joined[name], -1) for name in ("size", "size_expected")]
        other_sizes = joined.filter(pc.not_equal(*sizes))
        if other_sizes.num_rows:
            yield f"differs from the commits in the size of {_format_keys(other_sizes['key'].to_pylist())}"
        other_values = joined.filter(pc.not_equal(joined["values"], joined["values_expected"]))
        if other_values.num_rows:
            other_keys = other_values["key"].to_pylist()
            yield f"differs from the commits in the partition values of {_format_keys(other_keys)}"


def _by_key(files: pa.Table) -> pa.Table:
    """Return the key, the size and the partition values (as a text) of each file."""
    # Many files have equal values. Equal texts share one object to save memory.
    shared_texts: dict[str, str] = {}
    texts = (repr(sorted(values or ())) for chunk in files["partitionValues"].chunks for values in chunk.to_pylist())
    value_texts = pa.array([shared_texts.setdefault(text, text) for text in texts], pa.string())
    return pa.table({"key": key_column(files), "size": files["size"], "values": value_texts})


def _keys_only_in(files: pa.Table, reference: pa.Table) -> list[str]:
    keys: list[str] = (
        files["key"].filter(pc.invert(pc.is_in(files["key"], value_set=pc.unique(reference["key"])))).to_pylist()
    )
    return keys


def _format_keys(keys: list[str]) -> str:
    """Format keys as `2 files ('a', 'b')`, with at most `_MAX_SHOWN_PATHS` paths."""
    paths = ", ".join(repr(key.partition("\n")[0]) for key in keys[:_MAX_SHOWN_PATHS])
    return f"{counted(len(keys), 'file')} ({paths}{', ...' if len(keys) > _MAX_SHOWN_PATHS else ''})"
