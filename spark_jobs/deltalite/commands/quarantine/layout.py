"""The columns of a quarantine table, and the check of a table that exists."""

from __future__ import annotations

from deltalite.commands.common.append_only import refuse_if_append_only
from deltalite.errors import SchemaMismatchError
from deltalite.protocol.features import check_writable
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.snapshot import Snapshot
from deltalite.txn.transaction_retention import check_keeps_transactions

_STRING = PrimitiveType("string")
FILE, LINE, REASON, RECORD, AUDIT = "file", "line", "reason", "record", "audit"
TARGET, RUN, TXN_VERSION, AT = "target", "run", "txn_version", "at"
COLUMNS = StructType(
    (
        StructField(FILE, _STRING),
        StructField(LINE, PrimitiveType("long")),
        StructField(REASON, _STRING),
        StructField(RECORD, _STRING),
        StructField(AUDIT, _STRING),
        StructField(TARGET, _STRING),
        StructField(RUN, _STRING),
        StructField(TXN_VERSION, PrimitiveType("long")),
        StructField(AT, PrimitiveType("timestamp")),
    )
)
"""The columns of a quarantine table.

- `file`, `line`: the address of the file, and the line in which the record begins, from 1; null if unknown.
- `reason`: why the record, the file or the row was rejected, as a sentence.
- `record`: the text of the record, or the row as JSON; null for a file that cannot be read.
- `audit`: the name of the audit that rejected the row; null for a bad record or file.
- `target`: the address of the table into which the run loads.
- `run`, `txn_version`: the app id and the transaction version of the commit to the target. If a run writes again, the
  app id stays and the version differs. The same holds for runs that share an idempotency key. A command without a run
  identity has a random app id.
- `at`: the time at which the run stored the row.
"""


def check_quarantine(snapshot: Snapshot) -> None:
    """Check that runs can store rows in a table, and replace them in a retry.

    Raises:
        SchemaMismatchError: the table has other columns; their order does not count.
        InvalidRequestError: the transactions of the table expire.
        AppendOnlyError: the table is append-only, so a retry cannot replace its rows.
        UnsupportedFeatureError: this release cannot write the table.
    """
    check_writable(snapshot.protocol, snapshot.metadata)
    expected = {column.name: column.type for column in COLUMNS}
    actual = {column.name: column.type for column in snapshot.schema}
    if expected != actual:
        raise SchemaMismatchError(
            f"{snapshot.store.root} has the columns {_text_of(snapshot.schema)}, and a quarantine has the columns "
            f"{_text_of(COLUMNS)}.",
            remedy="Give the address of a new table, or of a table that an earlier run created as its quarantine.",
        )
    check_keeps_transactions(
        snapshot.configuration,
        failure="Could not store rejected rows",
        effect="the transactions of runs, and a retry would store its rows twice",
        advice="Or give another quarantine.",
    )
    refuse_if_append_only(
        snapshot, "a retry replaces the rows of its run", remedy="Unset the property, or give another quarantine."
    )


def _text_of(schema: StructType) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
