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
_SHOWN = 3


def differences(found: ReplayedLog, expected: ReplayedLog) -> Iterator[str]:
    """Yield the differences of `found` from `expected`, as sentences without a subject.

    Raises:
        PassOver: the files of one log cannot be read.
    """
    said, told = (facts_of(log.protocol, log.metadata) for log in (found, expected))
    for name in said:
        if said[name] != told[name]:
            yield f"has the {name} {said[name]!s:.200} where the commits give {told[name]!s:.200}"
    yield from _transactions(found.transactions, expected)
    configured = [{name: d.configuration for name, d in log.domains.items()} for log in (found, expected)]
    for domain in sorted(configured[0].keys() | configured[1].keys()):
        if configured[0].get(domain) != configured[1].get(domain):
            yield f"has another configuration of the domain '{domain}' than the commits"
    yield from _files(found.files(_COLUMNS), expected.files(_COLUMNS))


def _transactions(found: Mapping[str, SetTransaction], expected: ReplayedLog) -> Iterator[str]:
    may_expire = props.SET_TRANSACTION_RETENTION_MS.of(expected.metadata.configuration) is not None
    for app_id, told in expected.transactions.items():
        said = found.get(app_id)
        if said is None and not may_expire:
            yield f"lacks the transaction of '{app_id}'"
        elif said is not None and said.version != told.version:
            yield f"has version {said.version} of the transaction of '{app_id}' where the commits give {told.version}"
    for app_id in found.keys() - expected.transactions.keys():
        if not may_expire:
            yield f"has a transaction of '{app_id}' that no commit made"


def _files(found: pa.Table, expected: pa.Table) -> Iterator[str]:
    said, told = (_by_key(files) for files in (found, expected))
    for extra, problem in ((_missing_in(said, told), "has"), (_missing_in(told, said), "lacks")):
        if extra:
            against = "is not in the table" if problem == "has" else "is in the table"
            yield f"{problem} {_named(extra)} that {against}, by the commits"
    both = said.join(told, "key", join_type="inner", right_suffix="_told")
    if both.num_rows:
        other = both.filter(pc.not_equal(pc.fill_null(both["size"], -1), pc.fill_null(both["size_told"], -1)))
        if other.num_rows:
            yield f"has other sizes than the commits for {_named(other['key'].to_pylist())}"
        other = both.filter(pc.not_equal(both["values"], both["values_told"]))
        if other.num_rows:
            yield f"has other partition values than the commits for {_named(other['key'].to_pylist())}"


def _by_key(files: pa.Table) -> pa.Table:
    known: dict[str, str] = {}  # many files have equal values; share the texts
    values = (repr(sorted(each or ())) for chunk in files["partitionValues"].chunks for each in chunk.to_pylist())
    shared = pa.array([known.setdefault(each, each) for each in values], pa.string())
    return pa.table({"key": key_column(files), "size": files["size"], "values": shared})


def _missing_in(these: pa.Table, those: pa.Table) -> list[str]:
    keys: list[str] = (
        these["key"].filter(pc.invert(pc.is_in(these["key"], value_set=pc.unique(those["key"])))).to_pylist()
    )
    return keys


def _named(keys: list[str]) -> str:
    """Format keys as `2 files ('a', 'b')`."""
    shown = ", ".join(repr(key.partition("\n")[0]) for key in keys[:_SHOWN])
    return f"{len(keys)} file{'s' * (len(keys) != 1)} ({shown}{', ...' * (len(keys) > _SHOWN)})"
