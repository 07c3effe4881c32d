"""Comparison of two ways to rebuild a version: a checkpoint or a log compaction, and the commits.

A checkpoint may omit expired transactions, tombstones and removed domains; these do not count as differences. Files are
compared by identity, size and partition values. Statistics have several valid forms, so `footers.py` compares them with
the footers instead. Protocol: Action Reconciliation, Checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.log.file_table import key_column
from deltalite.log.replay import ReplayedLog
from deltalite.log.state import facts_of
from deltalite.protocol import properties as props
from deltalite.protocol.actions import SetTransaction

_COLUMNS = ("path", "size", "partitionValues", "deletionVector")
_MAX_SHOWN = 3


def differences(actual: ReplayedLog, expected: ReplayedLog) -> Iterator[str]:
    """Yield the differences of `actual` from `expected`, as sentences without a subject.

    Raises:
        PassOver: the files of one log cannot be read.
    """
    actual_facts, expected_facts = (facts_of(log.protocol, log.metadata) for log in (actual, expected))
    for name in actual_facts:
        if actual_facts[name] != expected_facts[name]:
            yield f"has the {name} {actual_facts[name]!s:.200} where the commits give {expected_facts[name]!s:.200}"
    yield from _transactions(actual.transactions, expected)
    configured = [{name: d.configuration for name, d in log.domains.items()} for log in (actual, expected)]
    for domain in sorted(configured[0].keys() | configured[1].keys()):
        if configured[0].get(domain) != configured[1].get(domain):
            yield f"has another configuration of the domain '{domain}' than the commits"
    yield from _files(actual.files(_COLUMNS), expected.files(_COLUMNS))


def _transactions(actual: Mapping[str, SetTransaction], expected: ReplayedLog) -> Iterator[str]:
    may_expire = props.SET_TRANSACTION_RETENTION_MS.of(expected.metadata.configuration) is not None
    for app_id, expected_transaction in expected.transactions.items():
        actual_transaction = actual.get(app_id)
        if actual_transaction is None and not may_expire:
            yield f"lacks the transaction of '{app_id}'"
        elif actual_transaction is not None and actual_transaction.version != expected_transaction.version:
            versions = actual_transaction.version, expected_transaction.version
            yield f"has version {versions[0]} of the transaction of '{app_id}' where the commits give {versions[1]}"
    for app_id in actual.keys() - expected.transactions.keys():
        if not may_expire:
            yield f"has a transaction of '{app_id}' that no commit has"


def _files(actual: pa.Table, expected: pa.Table) -> Iterator[str]:
    actual_rows, expected_rows = (_by_key(files) for files in (actual, expected))
    if surplus := _keys_only_in(actual_rows, expected_rows):
        yield f"has {_format_keys(surplus)} that the commits do not have in the table"
    if lacking := _keys_only_in(expected_rows, actual_rows):
        yield f"lacks {_format_keys(lacking)} that the commits have in the table"
    joined = actual_rows.join(expected_rows, "key", join_type="inner", right_suffix="_expected")
    if joined.num_rows:
        sizes = [pc.fill_null(joined[name], -1) for name in ("size", "size_expected")]
        different = joined.filter(pc.not_equal(*sizes))
        if different.num_rows:
            yield f"has other sizes than the commits for {_format_keys(different['key'].to_pylist())}"
        different = joined.filter(pc.not_equal(joined["values"], joined["values_expected"]))
        if different.num_rows:
            yield f"has other partition values than the commits for {_format_keys(different['key'].to_pylist())}"


def _by_key(files: pa.Table) -> pa.Table:
    texts: dict[str, str] = {}  # many files have equal values; share the texts
    values = (repr(sorted(text or ())) for chunk in files["partitionValues"].chunks for text in chunk.to_pylist())
    values_texts = pa.array([texts.setdefault(text, text) for text in values], pa.string())
    return pa.table({"key": key_column(files), "size": files["size"], "values": values_texts})


def _keys_only_in(files: pa.Table, reference: pa.Table) -> list[str]:
    keys: list[str] = (
        files["key"].filter(pc.invert(pc.is_in(files["key"], value_set=pc.unique(reference["key"])))).to_pylist()
    )
    return keys


def _format_keys(keys: list[str]) -> str:
    """Format keys as `2 files ('a', 'b')`."""
    shown = ", ".join(repr(key.partition("\n")[0]) for key in keys[:_MAX_SHOWN])
    return f"{len(keys)} file{'s' * (len(keys) != 1)} ({shown}{', ...' * (len(keys) > _MAX_SHOWN)})"
